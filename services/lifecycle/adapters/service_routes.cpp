// Routes between programs: bills come from metering, command ends from nodes.
#include "libs/base/random.hpp"
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"
#include "services/lifecycle/adapters/api.hpp"
#include "services/lifecycle/adapters/inputs.hpp"

namespace nodus::lifecycle {

using boost::asio::awaitable;

namespace {

constexpr size_t kReportBytes = 4 * 1024 * 1024;

awaitable<void> bill_route(Api& api, http::Exchange& exchange) {
  Result<http::Identity> identity = fail(Code::kInternal, "InternalError", "");
  auto ran = co_await exchange.run_blocking([&] { identity = authenticate(api, exchange.request()); });
  if (!ran) co_return co_await exchange.respond(http::status(ran.error()));
  if (!identity) co_return co_await exchange.respond(http::status(identity.error()));
  const auto& target = exchange.request().target;
  const size_t mark = target.find('?');
  http::Upstream upstream;
  upstream.host = api.options.metering_host;
  upstream.port = api.options.metering_port;
  upstream.target = "/v1/bill" + (mark == std::string::npos ? "" : target.substr(mark));
  upstream.headers.set("X-Nodus-Identity",
                       http::sign_identity(*identity, api.options.identity_secret, api.clock.now()));
  auto passed = co_await exchange.proxy(std::move(upstream));
  if (passed) co_return;
  Error away{Code::kUnavailable, "MeteringUnavailable", "The bill cannot be read now. Try again.", {}, 2, {}};
  co_await exchange.respond(http::status(away));
}

bool from_machine(const Api& api, const http::Request& request, const std::string& machine) {
  const auto expected = "Bearer " + http::node_token(api.options.node_secret, MachineId(machine));
  return equal_in_constant_time(request.headers.get("Authorization").value_or(""), expected);
}

// A report that is refused for good is acknowledged all the same (the node must not keep it for ever), but
// counted.
Result<http::Response> process_reports(Api& api, const http::Request& request) {
  static auto refused =
      metrics::counter("nodus_lifecycle_reports_refused_total", "Node reports that were refused");
  auto batch = from_process_reports(request.body);
  if (!batch) return std::unexpected(std::move(batch.error()));
  if (!from_machine(api, request, batch->machine))
    return fail(Code::kUnauthenticated, "Unauthorized", "The token is not this machine's.");
  for (auto& work : batch->works) {
    auto done = api.batcher.run(std::move(work));
    if (done) continue;
    if (retryable(done.error().code)) return std::unexpected(std::move(done.error()));
    refused.add();
    log::warn("process_report.refused", {{"machine", batch->machine}, {"reason", done.error().reason}});
  }
  return http::Response{200, {}, ""};
}

}  // namespace

void service_routes(http::Server& server, Api& api) {
  server.route({.method = "GET",
                .pattern = "/apis/nodus.dev/v1/namespaces/{project}/bill",
                .name = "bill.get",
                .handler = {},
                .stream = [&api](http::Exchange& e) { return bill_route(api, e); },
                .body_bytes = {}});
  server.route({.method = "POST",
                .pattern = "/node/v1/process-reports",
                .name = "node.process_reports",
                .handler =
                    [&api](const http::Request& r) {
                      auto response = process_reports(api, r);
                      return response ? std::move(*response) : http::status(response.error());
                    },
                .stream = {},
                .body_bytes = kReportBytes});
}

}  // namespace nodus::lifecycle
