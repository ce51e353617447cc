// What machines say of the activity of their Sandboxes. A report of another's Sandbox or of an old start is
// refused for good: counted, and acknowledged all the same.
#include "libs/telemetry/metrics.hpp"
#include "nodus/node/v1/channel.pb.h"
#include "services/lifecycle/adapters/api.hpp"
#include "services/lifecycle/app/works.hpp"

namespace nodus::lifecycle {

using boost::asio::awaitable;

namespace {

constexpr size_t kReportBytes = 1024 * 1024;
constexpr int kMaxReports = 1024;
constexpr size_t kMaxBecause = 256;

Result<http::Response> record(Api& api, const MachineId& machine, const std::string& body) {
  static auto refused = metrics::counter("nodus_lifecycle_activity_refused_total",
                                         "Node reports of activity that were refused");
  nodus::node::v1::ActivityReports reports;
  if (!reports.ParseFromString(body) || reports.reports_size() > kMaxReports)
    return fail(Code::kBadRequest, "BadRequest",
                "The body is not an ActivityReports of at most 1,024 reports.");
  if (reports.machine() != machine.str())
    return fail(Code::kUnauthenticated, "Unauthorized", "The token is not this machine's.");
  for (const auto& r : reports.reports()) {
    RecordActivity command{
        machine.str(),
        {r.epoch(), r.busy(), r.because().substr(0, kMaxBecause), from_micros(r.last_activity_at_us()), {}}};
    auto done = api.batcher.run(
        change_sandbox(SandboxUid(r.sandbox_uid()), std::move(command), {api.clock.now(), std::nullopt}));
    if (!done && retryable(done.error().code)) return std::unexpected(std::move(done.error()));
    if (!done) refused.add();
  }
  return http::Response{200, {}, ""};
}

awaitable<void> activity_route(Api& api, http::Exchange& exchange) {
  const auto header = exchange.request().headers.get("Authorization").value_or("");
  const auto machine = http::verify_node_token(header, api.options.node_secret);
  if (!machine) co_return co_await exchange.respond(http::status(machine.error()));
  auto body = co_await exchange.read_body(kReportBytes);
  if (!body) co_return co_await exchange.respond(http::status(body.error()));
  Result<http::Response> response = fail(Code::kInternal, "InternalError", "");
  auto ran = co_await exchange.run_blocking([&] { response = record(api, *machine, *body); });
  if (!ran) co_return co_await exchange.respond(http::status(ran.error()));
  co_await exchange.respond(response ? std::move(*response) : http::status(response.error()));
}

}  // namespace

void activity_routes(http::Server& server, Api& api) {
  server.route({.method = "POST",
                .pattern = "/node/v1/activity",
                .name = "node.activity",
                .handler = {},
                .stream = [&api](http::Exchange& e) { return activity_route(api, e); },
                .body_bytes = {}});
}

}  // namespace nodus::lifecycle
