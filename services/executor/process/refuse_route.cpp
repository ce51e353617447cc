// Lifecycle asks about a command that it handed over and heard nothing of.
#include <boost/json.hpp>

#include "services/executor/process/exec_request.hpp"
#include "services/executor/process/route_support.hpp"

namespace nodus::executor {
namespace json = boost::json;
using boost::asio::awaitable;

static awaitable<void> refuse_process(const RouteContext& context, http::Exchange& exchange) {
  constexpr size_t kBodyBytes = 4096, kNameBytes = 253;
  auto slot = find_slot(context, exchange.request());
  if (!slot) co_return co_await refuse(exchange, slot.error());
  auto body = co_await exchange.read_body(kBodyBytes);
  if (!body) co_return co_await refuse(exchange, body.error());
  boost::system::error_code fault;
  const json::value root = json::parse(*body, fault);
  const auto* name = fault || !root.is_object() ? nullptr : root.get_object().if_contains("name");
  const std::string uid = exchange.request().params.at("process");
  if (!name || !name->is_string() || name->get_string().size() > kNameBytes || !valid_uid(uid)) {
    Error error{Code::kBadRequest, "BadRequest", "A UUID in the path, and {\"name\":…}.", {}, {}, {}};
    co_return co_await refuse(exchange, error);
  }
  Result<bool> known = false;
  auto ran =
      co_await exchange.run_blocking([&] { known = (*slot)->refuse(uid, std::string(name->get_string())); });
  if (!ran) co_return co_await refuse(exchange, ran.error());
  if (!known) co_return co_await refuse(exchange, known.error());
  co_await exchange.respond(http::json(200, json::serialize(json::object{{"known", *known}})));
}

void refuse_route(http::Server& server, const std::shared_ptr<const RouteContext>& context) {
  server.route({.method = "POST",
                .pattern = "/v1/slots/{uid}/epochs/{epoch}/processes/{process}/refuse",
                .name = "node.processes.refuse",
                .handler = {},
                .stream = [context](http::Exchange& exchange) { return refuse_process(*context, exchange); },
                .body_bytes = {}});
}

}  // namespace nodus::executor
