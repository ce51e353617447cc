// Routes between programs: bills come from metering, command ends from nodes.
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"
#include "services/lifecycle/adapters/api.hpp"
#include "services/lifecycle/adapters/inputs.hpp"

namespace nodus::lifecycle {

using boost::asio::awaitable;

namespace {

constexpr size_t kReportBytes = 4 * 1024 * 1024;

awaitable<void> bill_route(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  const auto& target = exchange.request().target;
  const size_t mark = target.find('?');
  http::Upstream upstream;
  upstream.host = api.options.metering_host;
  upstream.port = api.options.metering_port;
  upstream.target = "/v1/bill" + (mark == std::string::npos ? "" : target.substr(mark));
  upstream.headers.set("X-Nodus-Identity",
                       http::sign_identity(caller, api.options.identity_secret, api.clock.now()));
  auto passed = co_await exchange.proxy(std::move(upstream));
  if (passed) co_return;
  Error away{Code::kUnavailable, "MeteringUnavailable", "The bill cannot be read now. Try again.", {}, 2, {}};
  co_await exchange.respond(http::status(away));
}

// A report that is refused for good is acknowledged all the same (the node must not keep it for ever), but
// counted.
Result<http::Response> process_reports(Api& api, const MachineId& machine, const std::string& body) {
  static auto refused =
      metrics::counter("nodus_lifecycle_reports_refused_total", "Node reports that were refused");
  auto batch = from_process_reports(body);
  if (!batch) return std::unexpected(std::move(batch.error()));
  if (batch->machine != machine.str())
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

awaitable<void> process_reports_route(Api& api, http::Exchange& exchange) {
  const auto header = exchange.request().headers.get("Authorization").value_or("");
  const auto machine = http::verify_node_token(header, api.options.node_secret);
  if (!machine) co_return co_await exchange.respond(http::status(machine.error()));
  auto body = co_await exchange.read_body(kReportBytes);
  if (!body) co_return co_await exchange.respond(http::status(body.error()));
  Result<http::Response> response = fail(Code::kInternal, "InternalError", "");
  auto ran = co_await exchange.run_blocking([&] { response = process_reports(api, *machine, *body); });
  if (!ran) co_return co_await exchange.respond(http::status(ran.error()));
  co_await exchange.respond(response ? std::move(*response) : http::status(response.error()));
}

}  // namespace

std::vector<PublicRoute> bill_routes() {
  return {{.method = "GET",
           .pattern = "/apis/nodus.dev/v1/namespaces/{project}/bill",
           .name = "bill.get",
           .right = Right::kBill,
           .effect = Effect::kReads,
           .stream = bill_route}};
}

void node_routes(http::Server& server, Api& api) {
  server.route({.method = "POST",
                .pattern = "/node/v1/process-reports",
                .name = "node.process_reports",
                .handler = {},
                .stream = [&api](http::Exchange& e) { return process_reports_route(api, e); },
                .body_bytes = {}});
}

}  // namespace nodus::lifecycle
