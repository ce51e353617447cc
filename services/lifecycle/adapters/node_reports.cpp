// What nodes report of commands: how they ended, and what they wrote. Each with its own token.
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"
#include "nodus/node/v1/channel.pb.h"
#include "services/lifecycle/adapters/api.hpp"
#include "services/lifecycle/adapters/codec.hpp"
#include "services/lifecycle/adapters/inputs.hpp"

namespace nodus::lifecycle {

using boost::asio::awaitable;

namespace {

constexpr size_t kReportBytes = 4 * 1024 * 1024;
constexpr size_t kOutputBytes = 8 * 1024 * 1024;
constexpr int kMostOutputs = 1024;

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
    if (done) {
      if (const auto process = ProcessCodec::decode_state(*done))
        (void)api.outputs.seal({process->admitted.sandbox, process->admitted.uid});
      continue;
    }
    if (retryable(done.error().code)) return std::unexpected(std::move(done.error()));
    refused.add();
    log::warn("process_report.refused", {{"machine", batch->machine}, {"reason", done.error().reason}});
  }
  return http::Response{200, {}, ""};
}

namespace pb = nodus::node::v1;

// A node may write the output of its own machine's and epoch's commands, while they run.
Result<uint64_t> keep_output(Api& api, const MachineId& machine, const pb::ProcessOutput& output) {
  auto process = api.catalog.process(ProcessUid(output.process_uid()));
  if (!process) return std::unexpected(std::move(process.error()));
  const auto& admitted = process->admitted;
  if (admitted.machine != machine.str() || admitted.sandbox.str() != output.sandbox_uid())
    return fail(Code::kNotFound, "NotFound", "There is no such Process.");
  if (admitted.epoch != output.epoch())
    return fail(Code::kConflict, "StaleEpoch", "The output is of another start of the Sandbox.");
  if (process->ended)
    return fail(Code::kConflict, "OutputSealed", "The command has ended: its output is complete.");
  std::vector<OutputFrame> frames;
  frames.reserve(output.frames_size());
  for (const auto& frame : output.frames()) frames.push_back({frame.stream(), frame.offset(), frame.data()});
  return api.outputs.append({admitted.sandbox, admitted.uid}, output.from(), frames);
}

// What may pass (the database, a full disk) fails the whole post, so that the node repeats it.
Result<http::Response> process_output(Api& api, const MachineId& machine, const std::string& body) {
  static auto refused =
      metrics::counter("nodus_lifecycle_outputs_refused_total", "Outputs of nodes that were refused");
  pb::ProcessOutputs outputs;
  if (!outputs.ParseFromString(body) || outputs.outputs_size() > kMostOutputs)
    return fail(Code::kBadRequest, "BadRequest",
                "The body is not a ProcessOutputs of at most 1,024 outputs.");
  if (outputs.machine() != machine.str())
    return fail(Code::kUnauthenticated, "Unauthorized", "The token is not this machine's.");
  pb::ProcessOutputsKept answer;
  for (const auto& output : outputs.outputs()) {
    auto* kept = answer.add_outputs();
    kept->set_process_uid(output.process_uid());
    auto end = keep_output(api, machine, output);
    if (end) {
      kept->set_kept(*end);
      continue;
    }
    if (retryable(end.error().code)) return std::unexpected(std::move(end.error()));
    refused.add();
    kept->set_refused(end.error().reason);
    log::warn("process_output.refused", {{"machine", machine.str()}, {"reason", end.error().reason}});
  }
  http::Response response{200, {}, answer.SerializeAsString()};
  response.headers.set("Content-Type", "application/x-protobuf");
  return response;
}

template <class Handle>
awaitable<void> node_route(Api& api, http::Exchange& exchange, size_t most, Handle handle) {
  const auto header = exchange.request().headers.get("Authorization").value_or("");
  const auto machine = http::verify_node_token(header, api.options.node_secret);
  if (!machine) co_return co_await exchange.respond(http::status(machine.error()));
  auto body = co_await exchange.read_body(most);
  if (!body) co_return co_await exchange.respond(http::status(body.error()));
  Result<http::Response> response = fail(Code::kInternal, "InternalError", "");
  auto ran = co_await exchange.run_blocking([&] { response = handle(api, *machine, *body); });
  if (!ran) co_return co_await exchange.respond(http::status(ran.error()));
  co_await exchange.respond(response ? std::move(*response) : http::status(response.error()));
}

}  // namespace

void node_routes(http::Server& server, Api& api) {
  const auto route = [&](std::string pattern, std::string name, size_t most, auto handle) {
    server.route(
        {.method = "POST",
         .pattern = std::move(pattern),
         .name = std::move(name),
         .handler = {},
         .stream = [&api, most, handle](http::Exchange& e) { return node_route(api, e, most, handle); },
         .body_bytes = {}});
  };
  route("/node/v1/process-reports", "node.process_reports", kReportBytes, process_reports);
  route("/node/v1/process-output", "node.process_output", kOutputBytes, process_output);
}

}  // namespace nodus::lifecycle
