// What the routes of the data path share.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "services/executor/process/file_desk.hpp"
#include "services/executor/process/routes.hpp"

namespace nodus::executor {

using SlotPtr = std::shared_ptr<SlotProcesses>;

struct RouteContext {
  Processes& processes;
  http::Waiters& waiters;
  DataPathOptions options;
  std::shared_ptr<FileDesk> desk = std::make_shared<FileDesk>(options.files);
};

boost::asio::awaitable<void> refuse(http::Exchange& exchange, const Error& error);
std::optional<int64_t> parse_number(std::string_view text);  // decimal digits only
// The running slot of the path, for whoever holds the node's token. Unauthenticated, SlotNotRunning.
Result<SlotPtr> find_slot(const RouteContext& context, const http::Request& request);

// attach.cpp: a command that runs or has run.
void attach_routes(http::Server& server, const std::shared_ptr<const RouteContext>& context);
// refuse_route.cpp: a command that was handed over, or not.
void refuse_route(http::Server& server, const std::shared_ptr<const RouteContext>& context);
void file_routes(http::Server& server, const std::shared_ptr<const RouteContext>& context);

}  // namespace nodus::executor
