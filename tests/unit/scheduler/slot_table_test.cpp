// Runs every cell of the table state × message in services/scheduler/README.md.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "tests/unit/scheduler/given.hpp"
#include "tests/unit/scheduler/readme.hpp"

namespace nodus::scheduler::test {
namespace {

using Outcome = Result<std::vector<SlotEvent>>;

Driver in_state(const std::string& name) {
  Driver d;
  if (name == "New") return d;
  d.given(PlanStart{order(1)}).given(Fund{1}, true);
  d.given(Stop{1, StopReason::kUser, {}}).given(d.report(NodeSays::kStopped));
  d.given(PlanStart{order(2)});
  if (name == "Offered") return d;
  if (name == "Funded") return d.given(Fund{2}, false);
  d.given(Fund{2}, true);
  if (name == "Reserved") return d;
  d.given(d.report(NodeSays::kRunning));
  if (name == "Started") return d;
  if (name == "Stopping Idle") return d.given(Stop{2, StopReason::kIdle, kT0});
  if (name == "Stopping Delete") return d.given(Delete{});
  d.given(Stop{2, StopReason::kUser, {}});
  if (name == "Over") d.given(d.report(NodeSays::kStopped));
  return d;
}

// What each row sends; `current` is the start under way, 1 when there was none.
Outcome send(const std::string& message, Driver& d) {
  const int64_t current = std::max<int64_t>(d.state.order.start, 1);
  const int64_t earlier = d.state.order.start == 0 ? 0 : 1;
  auto stop = [&](StopReason reason) { return d.when(Stop{current, reason, kT0}); };
  auto node = [&](NodeSays says) { return d.when(d.report(says)); };
  auto node_as = [&](const MachineId& machine, int64_t epoch) {
    Report r = d.report(NodeSays::kFailed);
    r.machine = machine;
    r.epoch = epoch;
    return d.when(r);
  };
  const std::map<std::string, std::function<Outcome()>> rows = {
      {"StartRequested, next", [&] { return d.when(PlanStart{order(d.state.order.start + 1)}); }},
      {"StartRequested, again", [&] { return d.when(PlanStart{order(current)}); }},
      {"StartFunded, room", [&] { return d.when(Fund{current}, true); }},
      {"StartFunded, no room", [&] { return d.when(Fund{current}, false); }},
      {"StartFunded, too many wait", [&] { return d.when(Fund{current}, false, false); }},
      {"StartFunded, earlier start", [&] { return d.when(Fund{earlier}, true); }},
      {"StartFunded, unknown start", [&] { return d.when(Fund{3}, true); }},
      {"StartRefused", [&] { return d.when(Refuse{current}); }},
      {"StartRefused, earlier start", [&] { return d.when(Refuse{earlier}); }},
      {"StartRefused, unknown start", [&] { return d.when(Refuse{3}); }},
      {"StopRequested User", [&] { return stop(StopReason::kUser); }},
      {"StopRequested Idle", [&] { return stop(StopReason::kIdle); }},
      {"StopRequested MaxCostReached", [&] { return stop(StopReason::kMaxCostReached); }},
      {"StopRequested Delete", [&] { return stop(StopReason::kDelete); }},
      {"StopRequested, earlier start", [&] { return d.when(Stop{earlier, StopReason::kUser, {}}); }},
      {"StopRequested, unknown start", [&] { return d.when(Stop{3, StopReason::kUser, {}}); }},
      {"DeleteRequested", [&] { return d.when(Delete{}); }},
      {"DeleteRequested, again", [&] { return d.given(Delete{}).when(Delete{}); }},
      {"MaxCostRaised", [&] { return d.when(RaiseCap{"99.00"}); }},
      {"MaxCostRaised, the same", [&] { return d.when(RaiseCap{d.state.order.max_cost_usd}); }},
      {"offer's deadline, due", [&] { return d.now += kTtl, d.when(Expire{current}); }},
      {"offer's deadline, early", [&] { return d.when(Expire{current}); }},
      {"room came", [&] { return d.when(Place{current}, true); }},
      {"no room came", [&] { return d.when(Place{current}, false); }},
      {"node STARTING", [&] { return node(NodeSays::kStarting); }},
      {"node RUNNING", [&] { return node(NodeSays::kRunning); }},
      {"node DECLINED", [&] { return node(NodeSays::kDeclined); }},
      {"node DECLINED, of an older order",
       [&] {
         Report r = d.report(NodeSays::kDeclined);
         r.declined = kT0 - Seconds(1);
         r.last_activity = kT0 + Seconds(3600);  // however new
         return d.when(r);
       }},
      {"node STOPPING", [&] { return node(NodeSays::kStopping); }},
      {"node STOPPED", [&] { return node(NodeSays::kStopped); }},
      {"node FAILED", [&] { return node(NodeSays::kFailed); }},
      {"node no longer lists it", [&] { return node(NodeSays::kAbsent); }},
      {"machine rebooted", [&] { return node(NodeSays::kRebooted); }},
      {"machine declared lost", [&] { return d.when(Lose{d.state.machine, d.state.epoch, d.now}); }},
      {"report of an older epoch", [&] { return node_as(d.state.machine, d.state.epoch - 1); }},
      {"report of an epoch to come", [&] { return node_as(d.state.machine, d.state.epoch + 1); }},
      {"report of another machine", [&] { return node_as(MachineId("m2"), d.state.epoch); }},
  };
  const auto row = rows.find(message);
  if (row == rows.end()) return fail(Code::kInternal, "RowWithoutTest", message);
  return row->second();
}
constexpr size_t kRows = 37;

TEST(SlotTable, EveryCellOfTheReadme) {
  const auto table = read_table("| message | New |");
  EXPECT_EQ(table.rows.size(), kRows);
  for (const auto& row : table.rows)
    for (size_t i = 1; i < row.size(); ++i) {
      Driver d = in_state(table.states[i]);
      EXPECT_EQ(describe(send(row[0], d)), row[i]) << row[0] << " in state " << table.states[i];
    }
}

}  // namespace
}  // namespace nodus::scheduler::test
