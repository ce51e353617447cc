#include "services/executor/adapters/channel/activity_feed.hpp"

#include "libs/telemetry/log.hpp"
#include "nodus/node/v1/channel.pb.h"

namespace nodus::executor {

namespace {
constexpr int kMost = 512;  // a look; the rest waits for the next
}

bool ActivityFeed::is_news(const Known& known, const Activity& activity, Micros now) const {
  const bool steady = known.seen.busy == activity.busy && known.seen.because == activity.because;
  if (!known.ever) return steady && activity.busy;  // lifecycle takes a new one for idle
  const bool edge = known.told.busy != activity.busy || known.told.because != activity.because;
  if (edge) return steady;  // a short command is no news: lifecycle knows of it
  return !activity.busy && activity.last > known.told.last && now - known.told_at >= options_.last_used_every;
}

void ActivityFeed::look(const std::vector<SlotReport>& slots, Micros now,
                        const std::function<Result<void>(const std::string& body)>& post) {
  std::map<SlotKey, Known> known;
  node::v1::ActivityReports reports;
  reports.set_machine(machine_);
  std::vector<SlotKey> told;
  for (const auto& slot : slots) {
    if (slot.phase != Phase::kRunning && slot.phase != Phase::kDeclined) continue;
    const auto before = known_.find(slot.key);
    Known& now_known = known[slot.key] = before == known_.end() ? Known{} : before->second;
    const bool news = before != known_.end() && is_news(now_known, slot.activity, now);
    now_known.seen = slot.activity;
    if (!news || reports.reports_size() >= kMost) continue;
    auto* report = reports.add_reports();
    report->set_sandbox_uid(slot.key.sandbox.str());
    report->set_epoch(slot.key.epoch);
    report->set_busy(slot.activity.busy);
    report->set_because(slot.activity.because);
    report->set_last_activity_at_us(to_micros(slot.activity.last));
    told.push_back(slot.key);
  }
  known_ = std::move(known);
  if (told.empty()) return;
  if (auto posted = post(reports.SerializeAsString()); !posted)
    return log::warn("activity.not_told", {{"reason", posted.error().reason}});
  for (const auto& key : told) {
    auto& each = known_[key];
    each.told = each.seen;
    each.ever = true;
    each.told_at = now;
  }
}

}  // namespace nodus::executor
