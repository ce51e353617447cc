#include "tests/unit/lifecycle/engine.hpp"

#include "libs/base/overloaded.hpp"

namespace nodus::lifecycle::test {

namespace {

sched::Order order_of(const StartRequested& e, const Sandbox& s) {
  sched::Order order;
  order.sandbox = s.uid;
  order.start = e.start;
  order.org = s.org;
  order.shape = {1000, 1 << 30, 1 << 30};
  order.continuity_mode = s.spec.continuity == Continuity::kEphemeral ? "Ephemeral" : "Snapshotted";
  return order;
}

}  // namespace

// Decides and evolves; the same command at once again must do nothing.
bool Engine::lifecycle(const SandboxCommand& command) {
  const SandboxContext context{now_, money_.changed_at};
  const auto events = SandboxAggregate::decide(sandbox_, command, context);
  if (!events) return false;
  for (const auto& event : *events) {
    const Sandbox before = sandbox_;
    SandboxAggregate::evolve(sandbox_, event);
    publish(event);
    check(before);
  }
  const bool counts = std::holds_alternative<NumberProcess>(command);
  if (!events->empty() && !counts) {
    const auto again = SandboxAggregate::decide(sandbox_, command, context);
    EXPECT_TRUE(!again || again->empty()) << "a repeat had an effect, command " << command.index();
  }
  return !events->empty();
}

void Engine::check(const Sandbox& before) {
  const Sandbox& s = sandbox_;
  EXPECT_TRUE(before.phase != Phase::kDeleted || s.phase == Phase::kDeleted) << "came back from deletion";
  EXPECT_TRUE(s.phase != Phase::kDeleted || !s.start_open) << "deleted under a start";
  EXPECT_TRUE(!before.restore_point || s.restore_point) << "a restore point was lost";
  EXPECT_GE(s.epoch, before.epoch);
  for (size_t i = 0; i < kConditionTypes; ++i)
    EXPECT_TRUE(s.marks[i].since >= before.marks[i].since) << "a condition's time went back";
  if (s.delete_reason == "MaxLifetime" && before.delete_reason.empty())
    EXPECT_GE(now_, s.created_at + s.spec.max_lifetime) << "deleted early";
}

void Engine::publish(const SandboxEvent& event) {
  std::visit(Overloaded{
                 [&](const StartRequested& e) {
                   EXPECT_EQ(e.start, starts_ + 1) << "a start was skipped or repeated";
                   if (starts_ > 0) EXPECT_EQ(ends_[starts_], 1) << "a start before the last one ended";
                   starts_ = e.start;
                   to_scheduler_.push_back(sched::PlanStart{order_of(e, sandbox_)});
                 },
                 [&](const StopRequested& e) {
                   if (e.reason == StopReason::kIdle) {
                     EXPECT_GT(sandbox_.spec.idle_timeout, Micros(0)) << "0s never idles";
                     EXPECT_LE(sandbox_.last_activity + sandbox_.spec.idle_timeout, now_) << "early";
                   }
                   to_scheduler_.push_back(sched::Stop{e.start, static_cast<sched::StopReason>(e.reason),
                                                       e.idle_since.value_or(Instant{})});
                 },
                 [&](const DeleteRequested&) { to_scheduler_.push_back(sched::Delete{}); },
                 [](const auto&) {},
             },
             event);
}

void Engine::scheduler(const sched::SlotCommand& command, bool room) {
  sched::SlotContext context{now_, Seconds(60), std::nullopt, true};
  if (room) context.room = sched::Room{MachineId("m" + std::to_string(pick(3))), "h:1"};
  const auto events = sched::SlotAggregate::decide(slot_, command, context);
  ASSERT_TRUE(events.has_value()) << events.error().message;
  for (const auto& event : *events) {
    sched::SlotAggregate::evolve(slot_, event);
    publish(event);
  }
}

void Engine::publish(const sched::SlotEvent& event) {
  std::visit(
      Overloaded{
          [&](const sched::Offered& e) {  // metering judges it at once; its word travels on its own topic
            const int64_t start = e.slot.start;
            if (!funded_.insert(start).second) return;
            if (money_.rich) {
              funding_.push_back(sched::Fund{start});
              from_metering_.push_back(RecordFunding{{start, kRate, {}, now_}});
            } else {
              Refusal refusal = broke();
              refusal.at = now_;
              funding_.push_back(sched::Refuse{start});
              from_metering_.push_back(RecordFunding{{start, std::nullopt, refusal, now_}});
            }
          },
          [&](const sched::Lapsed& e) {
            static constexpr const char* kReasons[] = {"Refused", "Expired", "Stopped", "Deleted",
                                                       "NoCapacity"};
            ++ends_[e.slot.start];
            from_scheduler_.push_back(RecordLapse{e.slot.start, kReasons[static_cast<int>(e.reason)],
                                                  static_cast<StopReason>(e.stop_reason)});
          },
          [&](const sched::Reserved& e) {
            from_scheduler_.push_back(
                RecordSlot{{e.slot.start, e.slot.epoch, e.machine.str(), e.data_path, e.times.reserved_at}});
          },
          [&](const sched::Started& e) {
            from_scheduler_.push_back(RecordRunning{{e.slot.start, e.runtime, e.times.started_at}});
          },
          [&](const sched::Declined& e) {
            from_scheduler_.push_back(RecordStopDeclined{{e.slot.start, e.last_activity, "", {}}});
          },
          [&](const sched::Released& e) {
            ++ends_[e.slot.start];
            ReleaseRecorded release{.start = e.slot.start,
                                    .stop_reason = static_cast<StopReason>(e.stop_reason),
                                    .failure = e.failure,
                                    .message = "",
                                    .restore_point = {},
                                    .at = e.times.released_at};
            if (e.restore_point) release.restore_point = point();
            // A lost machine is told like any other end of a slot.
            if (e.failure == "Crashed" && pick(2) == 0) release.failure = kNodeLost;
            from_scheduler_.push_back(RecordRelease{release});
          },
          [](const auto&) {},
      },
      event);
}

void Engine::report(sched::NodeSays says) {
  sched::Report r;
  r.machine = slot_.machine;
  r.epoch = slot_.epoch;
  r.says = says;
  r.runtime = "runsc";
  if (says == sched::NodeSays::kStopped && pick(4) != 0)
    r.restore_point = sched::RestorePoint{"o", "s", 1, now_};
  r.last_activity = node_[slot_.epoch].last_activity;
  r.declined = slot_.idle_since;
  scheduler(r, false);
}

// The node hears what is desired of its slot, and does it.
void Engine::node() {
  for (auto& [epoch, slot] : node_)  // absent from what is desired: destroyed
    if (epoch != slot_.epoch || !slot_.live()) slot = NodeSlot{};
  if (!slot_.live()) return;
  NodeSlot& slot = node_[slot_.epoch];
  if (slot_.phase == sched::Phase::kStopping) return node_stop(slot);
  if (slot.up || slot_.phase != sched::Phase::kReserved) return;
  if (pick(12) == 0) return report(sched::NodeSays::kFailed);
  slot.up = true;
  slot.last_activity = now_;
  int up = 0;
  for (const auto& [epoch, each] : node_) up += each.up;
  EXPECT_EQ(up, 1) << "two copies of one Sandbox";
  report(sched::NodeSays::kRunning);
}

void Engine::node_stop(NodeSlot& slot) {
  if (slot_.stop_reason == sched::StopReason::kIdle) {
    if (slot.busy()) slot.last_activity = now_;
    if (slot.busy() || slot.last_activity > slot_.idle_since) return report(sched::NodeSays::kDeclined);
    EXPECT_FALSE(slot.busy()) << "a running command was stopped as idle";
    EXPECT_LE(slot.last_activity + spec_.idle_timeout, now_) << "an early idle stop";
  }
  slot = NodeSlot{};
  report(sched::NodeSays::kStopped);
}

void Engine::a_command() {
  if (!lifecycle(NumberProcess{})) {
    lifecycle(TriggerStart{Trigger::kCommand});
    return;
  }
  // Handed on under the epoch of its admission; the node takes no command of another, nor while it stops.
  const auto slot = node_.find(sandbox_.epoch);
  const bool stopping = slot_.phase == sched::Phase::kStopping;
  if (slot == node_.end() || !slot->second.open() || stopping) return;
  EXPECT_EQ(sandbox_.epoch, slot_.epoch) << "a command ran in an old start";
  ++slot->second.commands;
  slot->second.last_activity = now_;
}

void Engine::a_node_event() {
  if (!slot_.live()) return;
  NodeSlot& slot = node_[slot_.epoch];
  switch (pick(7)) {
    case 6:  // the machine tells what keeps it awake; its words may be of an old start
      if (slot.busy()) slot.last_activity = now_;
      lifecycle(RecordActivity{
          slot_.machine.str(),
          {slot_.epoch - pick(2), slot.busy(), slot.busy() ? "process 42" : "", slot.last_activity, {}}});
      return;
    case 0:
      if (slot.commands > 0) --slot.commands, slot.last_activity = now_;
      return;
    case 1:
      if (slot.up) slot.daemon = !slot.daemon, slot.last_activity = now_;
      return;
    case 2:
      if (slot.up) slot.last_activity = now_;  // a file request, GET too
      return;
    case 3:
      if (pick(6) != 0) return;
      slot = NodeSlot{};
      return report(sched::NodeSays::kAbsent);
    default:
      return node();
  }
}

void Engine::a_person() {
  switch (pick(12)) {
    case 0:
    case 1:
      lifecycle(TriggerStart{static_cast<Trigger>(pick(4))});
      return;
    case 2:
      lifecycle(RequestStop{StopReason::kUser, {}});
      return;
    case 3:
      if (pick(20) == 0) lifecycle(DeleteSandbox{});
      return;
    case 4: {  // reads of objects: the state says, and nothing moves
      const Sandbox before = sandbox_;
      (void)deadlines_of(sandbox_);
      (void)cost_at(sandbox_, now_);
      EXPECT_EQ(before, sandbox_);
      return;
    }
    case 5:
      money_.rich = pick(3) != 0;
      if (money_.rich) money_.changed_at = now_;
      return;
    case 6:
      if (sandbox_.start_open && pick(3) == 0)
        from_metering_.push_back(RequestStop{StopReason::kInsufficientCredits, sandbox_.start});
      return;
    case 7:
      if (pick(4) == 0)
        lifecycle(RaiseMaxCost{nodus::Money::from_pico(int128{1'000'000'000'000} * (2 + pick(5)))});
      return;
    default:
      return a_command();
  }
}

void Engine::deadlines(bool early) {
  for (const auto& deadline : deadlines_of(sandbox_)) {
    if ((deadline.due > now_) != early) continue;
    const bool decided = lifecycle(*command_of_deadline(deadline.kind));
    if (early) EXPECT_FALSE(decided) << deadline.kind << " fired early";
  }
}

bool Engine::deliver_one(bool twice) {
  const auto take = [&](auto& queue, auto&& hand) {
    if (queue.empty()) return false;
    const auto message = queue.front();
    queue.pop_front();
    hand(message);
    if (twice) hand(message);
    return true;
  };
  const int64_t first = pick(4);
  for (int64_t i = 0; i < 4; ++i) {
    const auto to_slot = [&](const auto& m) { scheduler(m, pick(4) != 0); };
    const auto to_sandbox = [&](const auto& m) { lifecycle(m); };
    bool done = false;
    switch ((first + i) % 4) {
      case 0:
        done = take(to_scheduler_, to_slot);
        break;
      case 1:
        // Metering learns of an offer from the scheduler, so never before the scheduler knows it.
        done = take(funding_, to_slot);
        break;
      case 2:
        done = take(from_scheduler_, to_sandbox);
        break;
      default:
        done = take(from_metering_, to_sandbox);
    }
    if (done) return true;
  }
  return false;
}

void Engine::step() {
  now_ += Micros(pick(4) == 0 ? pick(90) * 1'000'000 : pick(3'000'000));
  switch (pick(6)) {
    case 0:
      return a_person();
    case 1:
      return a_node_event();
    case 2:
      return deadlines(pick(3) == 0);
    case 3:
      if (slot_.pending()) {
        if (pick(3) == 0) return scheduler(sched::Expire{slot_.order.start}, false);
        return scheduler(sched::Place{slot_.order.start}, pick(2) == 0);
      }
      return;
    default:
      (void)deliver_one(pick(10) == 0);
  }
}

void Engine::drain() {
  for (int round = 0; round < 500; ++round) {
    deadlines(false);
    node();
    if (slot_.pending()) scheduler(sched::Expire{slot_.order.start}, false);
    if (!deliver_one(false) && round > 50 && sandbox_.phase == Phase::kDeleted) return;
  }
}

}  // namespace nodus::lifecycle::test
