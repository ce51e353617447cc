// What the file routes share: one request, its checks, its turn.
#pragma once

#include <boost/json.hpp>
#include <memory>
#include <string>

#include "services/executor/process/file_query.hpp"
#include "services/executor/process/route_support.hpp"

namespace nodus::executor {

struct FileRequest {
  SlotPtr slot;
  std::shared_ptr<void> under_way;  // the slot is not torn down meanwhile
  FileQuery query;
  std::shared_ptr<void> turn;
  std::unique_ptr<FileStream> stream;
};

// Token, slot, query, admission, in this order.
boost::asio::awaitable<Result<FileRequest>> begin_file(const RouteContext& context,
                                                       const http::Exchange& exchange);
boost::asio::awaitable<Result<void>> open_stream(const RouteContext& context, FileRequest& request);

// The slot has been closing for longer than what is under way is given.
bool closing(const RouteContext& context, const SlotProcesses& slot);
Error slot_closing();
Error file_too_large();
std::string written_answer(const std::string& path,
                           const FileReply& reply);  // {"path","size","sha256","etag"}

// Names are bytes, JSON is UTF-8: what is not UTF-8 is shown with U+FFFD, and whole as <name>Base64.
void put_bytes(boost::json::object& into, const std::string& name, std::string_view bytes);
std::string printable_utf8(std::string_view bytes);

// file_listing.cpp
boost::asio::awaitable<void> stat_path(const RouteContext& context, http::Exchange& exchange,
                                       FileRequest& file);
boost::asio::awaitable<void> list_directory(const RouteContext& context, http::Exchange& exchange,
                                            FileRequest& file);
// file_parts.cpp
boost::asio::awaitable<void> put_part(const RouteContext& context, http::Exchange& exchange,
                                      FileRequest& file);
boost::asio::awaitable<void> tell_upload(const RouteContext& context, http::Exchange& exchange,
                                         FileRequest& file);
boost::asio::awaitable<void> end_upload(const RouteContext& context, http::Exchange& exchange,
                                        FileRequest& file);

}  // namespace nodus::executor
