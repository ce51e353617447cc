#include "services/lifecycle/app/process_keeper.hpp"

#include <condition_variable>
#include <mutex>
#include <vector>

#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"
#include "services/lifecycle/app/works.hpp"

namespace nodus::lifecycle {

namespace {

constexpr int kPage = 200;

ProcessEnded over_end(const std::string& reason, Instant now) {
  if (reason == "NodeLost")
    return {.reason = "NodeLost",
            .exit_code = 137,
            .message = "The machine running the Sandbox was lost while the command ran.",
            .started_at = {},
            .ended_at = now};
  return {.reason = "ParentStopped",
          .exit_code = 137,
          .message = "The Sandbox stopped or was deleted while the command ran.",
          .started_at = {},
          .ended_at = now};
}

}  // namespace

ProcessKeeper::ProcessKeeper(eventlog::Batcher& batcher, pg::Pool& pool, Catalog& catalog,
                             OutputStore& outputs, const Clock& clock, RefuseUnlessKnown refuse,
                             KeeperOptions options)
    : batcher_(batcher),
      pool_(pool),
      catalog_(catalog),
      outputs_(outputs),
      clock_(clock),
      refuse_(std::move(refuse)),
      options_(options) {
  if (options_.poll > Millis(0)) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

ProcessKeeper::~ProcessKeeper() = default;

void ProcessKeeper::run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  while (!stop.stop_requested()) {
    if (auto done = round(); !done) log::warn("processes.failed", {{"reason", done.error().reason}});
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, options_.poll, [] { return false; });
  }
}

Result<void> ProcessKeeper::round() {
  auto over = end_over();
  auto asked = ask_unheard();
  auto removed = remove_outputs();
  return !over ? over : !asked ? asked : removed;
}

Result<void> ProcessKeeper::end_over() {
  static auto unreported = metrics::counter("nodus_lifecycle_processes_unreported_total",
                                            "Processes that ended without their machine's report");
  struct Over {
    ProcessUid uid;
    int64_t epoch;
    std::string reason;
  };
  auto found = pool_.with_tx([&](pg::Tx& tx) -> Result<std::vector<Over>> {
    std::vector<Over> out;
    const auto rows = tx.exec_params(
        "SELECT uid, epoch, over_reason FROM processes WHERE NOT ended AND over_us <= $1 "
        "ORDER BY over_us LIMIT $2",
        to_micros(clock_.now() - options_.grace), kPage);
    for (const auto& row : rows)
      out.push_back({ProcessUid(row[0].as<std::string>()), row[1].as<int64_t>(), row[2].as<std::string>()});
    return out;
  });
  if (!found) return std::unexpected(std::move(found.error()));
  for (const auto& each : *found) {
    auto process = catalog_.process(each.uid);
    if (!process) return std::unexpected(std::move(process.error()));
    const OutputKey key{process->admitted.sandbox, each.uid};
    ProcessEnded end = over_end(each.reason, clock_.now());
    if (const auto kept = outputs_.sizes(key)) {
      end.stdout_bytes = static_cast<int64_t>(kept->stdout_bytes);
      end.stderr_bytes = static_cast<int64_t>(kept->stderr_bytes);
    }
    auto done = batcher_.run(end_process(each.uid, {"", each.epoch, std::move(end)}));
    if (!done && retryable(done.error().code)) return std::unexpected(std::move(done.error()));
    if (!done) continue;
    unreported.add();
    (void)outputs_.seal(key);
  }
  return {};
}

// A machine that does not answer is asked once a round, whatever waits for it.
Result<void> ProcessKeeper::ask_unheard() {
  if (asked_ != Micros(0) && clock_.boot() - asked_ < options_.ask) return {};
  asked_ = clock_.boot();
  auto found = pool_.with_tx([&](pg::Tx& tx) -> Result<std::vector<std::string>> {
    std::vector<std::string> out;
    const auto rows = tx.exec_params(
        "SELECT uid FROM processes WHERE NOT ended AND over_us IS NULL "
        "AND (NOT heard AND admitted_us <= $1 OR expires_us <= $2) AND uid > $3 ORDER BY uid LIMIT $4",
        to_micros(clock_.now() - options_.hand_over), to_micros(clock_.now() - options_.grace), after_,
        kPage);
    for (const auto& row : rows) out.push_back(row[0].as<std::string>());
    return out;
  });
  if (!found) return std::unexpected(std::move(found.error()));
  after_ = found->size() == kPage ? found->back() : "";
  std::set<std::string> silent;  // machines
  std::vector<std::string> heard;
  for (const auto& uid : *found) {
    auto process = catalog_.process(ProcessUid(uid));
    if (!process) return std::unexpected(std::move(process.error()));
    const auto& admitted = process->admitted;
    if (process->ended || silent.contains(admitted.machine)) continue;
    auto sandbox = catalog_.sandbox(admitted.sandbox);
    if (!sandbox) return std::unexpected(std::move(sandbox.error()));
    if (sandbox->epoch != admitted.epoch || sandbox->data_path.empty()) continue;  // over, or soon
    auto answered = refuse_(*sandbox, admitted);
    if (answered)
      heard.push_back(uid);
    else
      silent.insert(admitted.machine);
  }
  if (heard.empty()) return {};
  return pool_.with_tx([&](pg::Tx& tx) -> Result<void> {
    for (const auto& uid : heard) tx.exec_params0("UPDATE processes SET heard = true WHERE uid = $1", uid);
    return {};
  });
}

Result<void> ProcessKeeper::remove_outputs() {
  auto gone = pool_.with_tx([&](pg::Tx& tx) -> Result<std::vector<std::string>> {
    std::vector<std::string> out;
    for (const auto& row : tx.exec_params("SELECT sandbox_uid FROM outputs_to_remove LIMIT $1", kPage))
      out.push_back(row[0].as<std::string>());
    return out;
  });
  if (!gone) return std::unexpected(std::move(gone.error()));
  for (const auto& uid : *gone) {
    if (auto removed = outputs_.remove(SandboxUid(uid)); !removed) return removed;
    auto done = pool_.with_tx([&](pg::Tx& tx) -> Result<void> {
      tx.exec_params0("DELETE FROM outputs_to_remove WHERE sandbox_uid = $1", uid);
      return {};
    });
    if (!done) return done;
  }
  if (swept_ != Micros(0) && clock_.boot() - swept_ < options_.sweep) return {};
  auto swept = outputs_.sweep(clock_.now());
  if (!swept) return std::unexpected(std::move(swept.error()));
  swept_ = clock_.boot();
  if (*swept > 0) log::info("outputs.swept", {{"files", int64_t{*swept}}});
  return {};
}

}  // namespace nodus::lifecycle
