#include "services/lifecycle/adapters/tenant_keeper.hpp"

#include <condition_variable>
#include <mutex>
#include <vector>

#include "libs/telemetry/log.hpp"
#include "services/lifecycle/app/works.hpp"

namespace nodus::lifecycle {

namespace {
constexpr int kPage = 500;
constexpr int kFold = 10'000;
constexpr Micros kAskAgain = Seconds(5);
}  // namespace

void TenantKeeper::start(Millis every) {
  thread_ = std::jthread([this, every](const std::stop_token& stop) { run(stop, every); });
}

void TenantKeeper::run(const std::stop_token& stop, Millis every) {
  std::mutex mutex;
  std::condition_variable_any wake;
  while (!stop.stop_requested()) {
    streams_.check();
    if (auto stopped = stop_suspended(); !stopped)
      log::warn("tenants.stop_failed", {{"reason", stopped.error().reason}});
    if (auto folded = fold_usage(); !folded)
      log::warn("tenants.fold_failed", {{"reason", folded.error().reason}});
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, every, [] { return false; });
  }
}

Result<int> TenantKeeper::stop_suspended() {
  auto running = pool_.with_tx([&](pg::Tx& tx) -> Result<std::vector<std::string>> {
    std::vector<std::string> out;
    // Those that hold a slot or an offer, and those that wait to ask for one again.
    for (const auto& row :
         tx.exec_params("SELECT s.uid FROM organizations o JOIN sandboxes s ON s.org = o.org "
                        "WHERE o.suspended_us IS NOT NULL AND s.released_at_us IS NULL "
                        "UNION SELECT s.uid FROM organizations o JOIN sandboxes s ON s.org = o.org "
                        "JOIN deadlines d ON d.stream = 'sandbox/' || s.uid AND d.kind = 'retry' "
                        "WHERE o.suspended_us IS NOT NULL LIMIT $1",
                        kPage))
      out.push_back(row[0].as<std::string>());
    return out;
  });
  if (!running) return std::unexpected(std::move(running.error()));
  std::map<std::string, Micros> asked;
  int stops = 0;
  for (const auto& uid : *running) {
    const auto it = asked_.find(uid);
    if (it != asked_.end() && clock_.boot() - it->second < kAskAgain) {
      asked.insert(*it);
      continue;
    }
    auto done = batcher_.run(change_sandbox(SandboxUid(uid), RequestStop{StopReason::kUser, {}},
                                            SandboxContext{clock_.now(), std::nullopt}));
    if (!done) {
      // One that cannot be decided now holds up no other.
      log::warn("tenants.stop_refused", {{"sandbox", uid}, {"reason", done.error().reason}});
      continue;
    }
    asked.emplace(uid, clock_.boot());
    ++stops;
  }
  asked_ = std::move(asked);
  return stops;
}

Result<int64_t> TenantKeeper::fold_usage() {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<int64_t> {
    return tx
        .exec_params1(
            "WITH gone AS (DELETE FROM usage_changes WHERE id IN (SELECT id FROM usage_changes ORDER BY id "
            "LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING org, sandboxes, cpu_milli, stored_bytes), "
            "sums AS (INSERT INTO usage_sums AS u (org, sandboxes, cpu_milli, stored_bytes) "
            "SELECT org, sum(sandboxes), sum(cpu_milli), sum(stored_bytes) FROM gone GROUP BY org ORDER BY "
            "org "
            "ON CONFLICT (org) DO UPDATE SET sandboxes = u.sandboxes + excluded.sandboxes, "
            "cpu_milli = u.cpu_milli + excluded.cpu_milli, "
            "stored_bytes = u.stored_bytes + excluded.stored_bytes) SELECT count(*) FROM gone",
            kFold)[0]
        .as<int64_t>();
  });
}

}  // namespace nodus::lifecycle
