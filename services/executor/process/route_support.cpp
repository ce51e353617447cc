#include "services/executor/process/route_support.hpp"

#include <charconv>

#include "libs/base/random.hpp"

namespace nodus::executor {
using boost::asio::awaitable;

awaitable<void> refuse(http::Exchange& exchange, const Error& error) {
  http::Response response = http::status(error);
  response.headers.set("X-Nodus-Reason", error.reason);
  co_await exchange.respond(std::move(response));
}

std::optional<int64_t> parse_number(std::string_view text) {
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || value < 0)
    return std::nullopt;
  return value;
}

Result<SlotPtr> find_slot(const RouteContext& context, const http::Request& request) {
  const std::string sent = request.headers.get("Authorization").value_or("");
  if (context.options.token.empty() || !equal_in_constant_time(sent, "Bearer " + context.options.token))
    return fail(Code::kUnauthenticated, "Unauthenticated", "The node's token is required.");
  const auto epoch = parse_number(request.params.at("epoch"));
  auto slot = epoch ? context.processes.find({SandboxUid(request.params.at("uid")), *epoch}) : nullptr;
  if (!slot) return fail(Code::kConflict, "SlotNotRunning", "The Sandbox does not run here.");
  return slot;
}

}  // namespace nodus::executor
