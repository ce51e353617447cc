#include "services/lifecycle/app/upkeep.hpp"

#include <vector>

#include "libs/eventlog/postgres_log.hpp"
#include "libs/telemetry/log.hpp"
#include "services/lifecycle/app/works.hpp"

namespace nodus::lifecycle {

namespace {
constexpr int kPage = 200;
}

Upkeep::Upkeep(eventlog::Batcher& batcher, pg::Pool& pool, const Clock& clock, UpkeepOptions options)
    : batcher_(batcher), pool_(pool), clock_(clock), options_(options), loop_([this] { return step(); }) {
  loop_.start();
}

Upkeep::~Upkeep() {
  loop_.stop();
}

Millis Upkeep::step() {
  if (auto ended = end_orphans(); !ended) log::warn("orphans.failed", {{"reason", ended.error().reason}});
  if (clock_.boot() - ranges_made_ > std::chrono::hours(1)) {
    auto made = eventlog::ensure_ranges(pool_);
    if (made) ranges_made_ = clock_.boot();
    if (!made) log::warn("ranges.failed", {{"reason", made.error().reason}});
  }
  return options_.poll;
}

Result<void> Upkeep::end_orphans() {
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
