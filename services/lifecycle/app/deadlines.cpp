#include "services/lifecycle/app/deadlines.hpp"

#include <condition_variable>
#include <mutex>
#include <vector>

#include "libs/eventlog/postgres_log.hpp"
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"
#include "services/lifecycle/app/works.hpp"

namespace nodus::lifecycle {

namespace {

constexpr int kPage = 200;

struct Due {
  SandboxUid uid;
  std::string kind;
  Instant due;
};

metrics::Histogram lateness() {
  return metrics::histogram("nodus_lifecycle_deadline_lateness_seconds", "How late a deadline was decided",
                            {0.1, 0.5, 1, 2, 5, 15, 60, 300});
}

}  // namespace

Deadlines::Deadlines(eventlog::Batcher& batcher, pg::Pool& pool, const Clock& clock, DeadlineOptions options)
    : batcher_(batcher), pool_(pool), clock_(clock), options_(options) {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Deadlines::~Deadlines() = default;

void Deadlines::run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  while (!stop.stop_requested()) {
    auto fired = fire_due();
    if (!fired) log::warn("deadlines.failed", {{"reason", fired.error().reason}});
    if (auto ended = end_orphans(); !ended) log::warn("orphans.failed", {{"reason", ended.error().reason}});
    if (fired && *fired == kPage) continue;  // more are due
    if (clock_.boot() - ranges_made_ > std::chrono::hours(1)) {
      auto made = eventlog::ensure_ranges(pool_);
      if (made) ranges_made_ = clock_.boot();
      if (!made) log::warn("ranges.failed", {{"reason", made.error().reason}});
    }
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, options_.poll, [] { return false; });
  }
}

Result<int> Deadlines::fire_due() {
  const Instant now = clock_.now();
  auto due = pool_.with_tx([&](pqxx::work& tx) -> Result<std::vector<Due>> {
    std::vector<Due> out;
    // maxLifetime first: it is the backstop.
    const auto rows = tx.exec_params(
        "SELECT substr(stream, 9), kind, due_us FROM deadlines WHERE due_us <= $1 "
        "ORDER BY kind <> 'lifetime', due_us LIMIT $2",
        to_micros(now), kPage);
    for (const auto& row : rows)
      out.push_back({SandboxUid(row[0].as<std::string>()), row[1].as<std::string>(),
                     from_micros(row[2].as<int64_t>())});
    return out;
  });
  if (!due) return std::unexpected(std::move(due.error()));
  int decided = 0;
  for (const auto& d : *due) {
    const SandboxCommand command = d.kind == "lifetime" ? SandboxCommand(CheckLifetime{})
                                   : d.kind == "retry"  ? SandboxCommand(CheckRetry{})
                                                        : SandboxCommand(CheckIdle{});
    auto done = batcher_.run(change_sandbox(d.uid, command, SandboxContext{clock_.now(), std::nullopt}));
    // One Sandbox that cannot be decided now holds up no other; its row stays and is tried again.
    if (!done) log::warn("deadline.refused", {{"sandbox", d.uid.str()}, {"reason", done.error().reason}});
    lateness().observe(std::chrono::duration<double>(clock_.now() - d.due).count());
    decided += done ? 1 : 0;
  }
  return decided;
}

Result<void> Deadlines::end_orphans() {
  struct Orphan {
    ProcessUid uid;
    int64_t epoch;
    bool unheard;
  };
  auto found = pool_.with_tx([&](pqxx::work& tx) -> Result<std::vector<Orphan>> {
    std::vector<Orphan> out;
    const auto rows = tx.exec_params(
        "SELECT p.uid, p.epoch, s.uid IS NOT NULL AND s.released_at_us IS NULL AND p.epoch = s.epoch "
        "FROM processes p LEFT JOIN sandboxes s ON s.uid = p.sandbox_uid "
        "WHERE NOT p.ended AND (s.uid IS NULL OR s.released_at_us IS NOT NULL OR p.epoch < s.epoch "
        "OR p.expires_us < $1) ORDER BY p.uid LIMIT $2",
        to_micros(clock_.now()), kPage);
    for (const auto& row : rows)
      out.push_back({ProcessUid(row[0].as<std::string>()), row[1].as<int64_t>(), row[2].as<bool>()});
    return out;
  });
  if (!found) return std::unexpected(std::move(found.error()));
  std::map<std::string, Micros> seen;
  for (const auto& orphan : *found) {
    const auto it = orphans_.find(orphan.uid.str());
    const Micros since = it == orphans_.end() ? clock_.boot() : it->second;
    seen.emplace(orphan.uid.str(), since);
    if (clock_.boot() - since < options_.orphan_grace) continue;
    // Past its timeout in a Sandbox that runs, and the node never reported it: it was not handed over.
    ProcessEnded ended{
        "ParentStopped", 137, "The Sandbox stopped or was deleted while the command ran.", {}, clock_.now()};
    if (orphan.unheard)
      ended = {"StartFailed", 126, "The command did not reach the Sandbox's machine.", {}, clock_.now()};
    auto done = batcher_.run(end_process(orphan.uid, {"", orphan.epoch, std::move(ended)}));
    if (!done && retryable(done.error().code)) return std::unexpected(std::move(done.error()));
  }
  orphans_ = std::move(seen);
  return {};
}

}  // namespace nodus::lifecycle
