#include "services/lifecycle/adapters/dispatch.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <memory>
#include <utility>

#include "libs/base/check.hpp"
#include "services/lifecycle/adapters/api.hpp"

namespace nodus::lifecycle {

using boost::asio::awaitable;

namespace {

bool allows(const std::string& role, Right right) {
  switch (right) {
    case Right::kNobody:
    case Right::kRead:
      return true;
    case Right::kUse:
      return role == "developer" || role == "admin";
    case Right::kBill:
      return role == "billing" || role == "admin";
    case Right::kAdmin:
      return role == "admin";
  }
  return false;
}

// Unauthorized, NotFound (another organization's project), Forbidden (the key's role is too small).
Result<http::Identity> admit_caller(Api& api, const PublicRoute& row, const http::Request& request) {
  if (row.right == Right::kNobody) return http::Identity{};
  std::optional<ProjectId> project;
  if (const auto it = request.params.find("project"); it != request.params.end())
    project = ProjectId(it->second);
  auto identity = api.keys.authenticate(request, project);
  if (!identity) return identity;
  if (!allows(identity->role, row.right))
    return fail(
        Code::kForbidden, "Forbidden",
        "The role of this key, " + identity->role + ", does not allow this. Use a key with another role.");
  return identity;
}

Result<http::Response> run_plain(Api& api, const PublicRoute& row, const http::Identity& caller,
                                 const http::Request& request) {
  try {
    return row.plain(api, caller, request);
  } catch (const std::exception& fault) {
    return fail(Code::kInternal, "HandlerFailed", row.name + ": " + fault.what());
  }
}

awaitable<void> serve_plain(Api& api, const PublicRoute& row, http::Exchange& exchange) {
  const auto admit = [&] { return admit_caller(api, row, exchange.request()); };
  Result<http::Response> response = fail(Code::kInternal, "InternalError", "");
  if (row.body_bytes == 0) {  // one visit to the workers
    response = co_await blocking<http::Response>(exchange, [&]() -> Result<http::Response> {
      auto caller = admit();
      if (!caller) return std::unexpected(std::move(caller.error()));
      return run_plain(api, row, *caller, exchange.request());
    });
    co_return co_await exchange.respond(response ? std::move(*response) : http::status(response.error()));
  }
  auto caller = co_await blocking<http::Identity>(exchange, admit);
  if (!caller) co_return co_await exchange.respond(http::status(caller.error()));
  auto body = co_await exchange.read_body(row.body_bytes);
  if (!body) co_return co_await exchange.respond(http::status(body.error()));
  http::Request request = exchange.request();
  request.body = std::move(*body);
  response =
      co_await blocking<http::Response>(exchange, [&] { return run_plain(api, row, *caller, request); });
  co_await exchange.respond(response ? std::move(*response) : http::status(response.error()));
}

awaitable<void> serve_stream(Api& api, const PublicRoute& row, http::Exchange& exchange) {
  auto caller =
      co_await blocking<http::Identity>(exchange, [&] { return admit_caller(api, row, exchange.request()); });
  if (!caller) co_return co_await exchange.respond(http::status(caller.error()));
  co_await row.stream(api, *caller, exchange);
}

}  // namespace

std::vector<PublicRoute> public_routes() {
  std::vector<PublicRoute> table;
  for (auto part : {object_routes(), replace_routes(), read_routes(), discovery_routes(), exec_routes(),
                    file_routes(), bill_routes()})
    std::ranges::move(part, std::back_inserter(table));
  return table;
}

void dispatch_routes(http::Server& server, Api& api, std::vector<PublicRoute> table) {
  for (auto& given : table) {
    CHECK((given.plain == nullptr) != (given.stream == nullptr), "{}: one handler", given.name);
    auto row = std::make_shared<const PublicRoute>(std::move(given));
    server.route({.method = row->method,
                  .pattern = row->pattern,
                  .name = row->name,
                  .handler = {},
                  .stream =
                      [&api, row](http::Exchange& e) {
                        return row->plain ? serve_plain(api, *row, e) : serve_stream(api, *row, e);
                      },
                  .body_bytes = {}});
  }
}

}  // namespace nodus::lifecycle
