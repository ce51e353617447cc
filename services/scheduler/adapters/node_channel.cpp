#include "services/scheduler/adapters/node_channel.hpp"

#include "libs/base/random.hpp"
#include "libs/http/identity.hpp"
#include "services/scheduler/adapters/codec/codec.hpp"

namespace nodus::scheduler {
namespace {

using boost::asio::awaitable;
constexpr size_t kBodyLimit = 4 * 1024 * 1024;
constexpr std::string_view kSlot = "slot/", kMachine = "machine/";

std::unexpected<Error> unauthenticated() {
  return fail(Code::kUnauthenticated, "Unauthorized", "The node token is missing or is not this machine's.");
}

}  // namespace

http::Route NodeChannel::route() {
  http::Route route;
  route.method = "POST";
  route.pattern = "/node/v1/sync";
  route.name = "node_sync";
  route.stream = [this](http::Exchange& exchange) { return serve(exchange); };
  return route;
}

awaitable<void> NodeChannel::serve(http::Exchange& exchange) {
  const auto header = exchange.request().headers.get("Authorization").value_or("");
  const auto machine = http::verify_node_token(header, options_.node_secret);  // before the body is read
  if (!machine) {
    co_await exchange.respond(http::status(machine.error()));
    co_return;
  }
  const auto body = co_await exchange.read_body(kBodyLimit);
  if (!body) {
    co_await exchange.respond(http::status(body.error()));
    co_return;
  }
  const auto sync = codec::from_sync(*body);
  if (!sync || sync->machine != *machine) {
    co_await exchange.respond(http::status(sync ? unauthenticated().error() : sync.error()));
    co_return;
  }
  const auto row = co_await exchange_states(exchange, *sync);
  if (!row) {
    co_await exchange.respond(http::status(row.error()));
    co_return;
  }
  const bool lost = row->is_lost(sync->incarnation);
  if (!lost) fleet_.told(*row);
  http::Response response;
  response.headers.set("Content-Type", "application/x-protobuf");
  response.body = codec::to_sync_answer(*row, lost, options_.lease, options_.poll);
  co_await exchange.respond(std::move(response));
}

awaitable<Result<MachineRow>> NodeChannel::exchange_states(http::Exchange& exchange, const NodeSync& sync) {
  const auto& machine = sync.machine.str();
  uint64_t ticket = waiters_.ticket(machine);
  Result<MachineRow> row = fail(Code::kInternal, "Internal", "The sync did not run.");
  auto ran = co_await exchange.run_blocking([&] { row = syncs_.apply(sync); });
  if (!ran) co_return std::unexpected(ran.error());
  const Micros until = clock_.boot() + options_.poll;
  while (row && row->version == sync.seen_version && !row->is_lost(sync.incarnation) && !draining_) {
    const auto left = std::chrono::ceil<Millis>(until - clock_.boot());
    if (left <= Millis(0)) break;
    co_await waiters_.wait(machine, ticket, left);
    ticket = waiters_.ticket(machine);
    ran = co_await exchange.run_blocking([&] { row = syncs_.desired(sync.machine); });
    if (!ran) co_return std::unexpected(ran.error());
  }
  co_return row;
}

void NodeChannel::committed(const std::vector<eventlog::Recorded>& events) {
  std::set<std::string> machines;
  for (const auto& event : events) {
    if (event.stream.starts_with(kMachine)) {
      machines.insert(event.stream.substr(kMachine.size()));
      continue;
    }
    const bool ordered =
        event.type == "nodus.scheduler.v1.SlotStopping" || event.type == "nodus.scheduler.v1.StopDeclined";
    if (!ordered || !event.stream.starts_with(kSlot)) continue;
    if (const auto holder = fleet_.machine_of(SandboxUid(event.stream.substr(kSlot.size())))) {
      machines.insert(holder->str());
      continue;
    }
    for (const auto& machine : fleet_.known()) machines.insert(machine.str());
  }
  for (const auto& machine : machines) waiters_.notify(machine);
}

void NodeChannel::drain() {
  draining_ = true;
  for (const auto& machine : fleet_.known()) waiters_.notify(machine.str());
}

}  // namespace nodus::scheduler
