// Random interleavings of all messages, repeats of old ones included, over several Sandboxes and machines. A
// seed is a run; a failure prints it. The checks recompute everything from the events alone.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "services/scheduler/domain/machine.hpp"
#include "services/scheduler/domain/placement.hpp"
#include "tests/unit/scheduler/given.hpp"

namespace nodus::scheduler::test {
namespace {

constexpr int kSandboxes = 6;
constexpr int kMachines = 2;
constexpr int kSteps = 120;
const Shape kCapacity{3000, 3LL << 30, 30LL << 30};

class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {
    for (int i = 0; i < kMachines; ++i) {
      const MachineId id("m" + std::to_string(i));
      Register r{id, OrgId("acme"), kCapacity, "host:1", "runsc", "boot"};
      for (const auto& e : *MachineAggregate::decide(machines_[id], r, {now_}))
        MachineAggregate::evolve(machines_[id], e);
    }
  }

  void step() {
    now_ += Micros(static_cast<int64_t>(below(3'000'000)) - 500'000);  // the wall clock also steps back
    const SandboxUid uid("u" + std::to_string(below(kSandboxes)));
    const SlotState& s = slots_[uid];
    switch (below(12)) {
      case 0:
      case 1:
        if (s.phase == Phase::kNone && !deleted_.contains(uid))
          send(uid, PlanStart{order(s.order.start + 1, uid.str())});
        return;
      case 2:
      case 3:
        if (s.order.start == 0) return;
        return send(uid,
                    below(4) == 0 ? SlotCommand(Refuse{s.order.start}) : SlotCommand(Fund{s.order.start}));
      case 4:
        if (s.order.start > 0) send(uid, Stop{s.order.start, static_cast<StopReason>(1 + below(6)), now_});
        return;
      case 5:
        if (below(8) != 0) return;
        deleted_.insert(uid);
        return send(uid, Delete{});
      case 6:
        if (below(4) == 0) now_ += kTtl;
        return send(uid, Expire{s.order.start});
      case 7:
        return send(uid, Place{s.order.start});
      case 8:
      case 9:
      case 10:
        return send(uid, random_report(s));
      default:
        if (!sent_.empty()) {
          const auto again = sent_[below(sent_.size())];
          send(again.first, again.second);
        }
    }
  }

  void drain() {
    for (int i = 0; i < kSandboxes; ++i) {
      const SandboxUid uid("u" + std::to_string(i));
      send(uid, Delete{});
      Report r;
      r.machine = slots_[uid].machine;
      r.epoch = slots_[uid].epoch;
      r.says = NodeSays::kStopped;
      send(uid, r);
      EXPECT_EQ(slots_[uid].phase, Phase::kNone);
    }
    for (const auto& [id, m] : machines_) {
      EXPECT_EQ(m.used, Shape{}) << id.str();
      EXPECT_TRUE(m.holdings.empty());
    }
    for (const auto& [offer, ends] : ends_) EXPECT_EQ(ends, 1) << offer.first.str() << " " << offer.second;
  }

  int reserved = 0;

 private:
  uint64_t below(uint64_t limit) { return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random_); }

  Report random_report(const SlotState& s) {
    Report r;
    r.machine = below(10) == 0 ? MachineId("m" + std::to_string(below(kMachines))) : s.machine;
    r.epoch = below(6) == 0 ? static_cast<int64_t>(below(4)) : s.epoch;
    r.says = static_cast<NodeSays>(below(8));
    r.declined = below(2) == 0 ? s.idle_since : kNever;
    if (r.says == NodeSays::kAbsent && below(2) == 0) r.says = NodeSays::kRunning;
    return r;
  }

  // The composition that the service does in one transaction: a slot and the machine that it takes from.
  void send(const SandboxUid& uid, const SlotCommand& command) {
    sent_.emplace_back(uid, command);
    SlotState& s = slots_[uid];
    SlotContext context{now_, kTtl, std::nullopt, below(20) != 0};
    std::vector<MachineView> views;
    for (const auto& [id, m] : machines_) views.push_back({id, m.org, m.capacity, m.used});
    const auto plan = plan_placement(views, OrgId("acme"), order(1).shape, 4);
    for (const auto& id : plan.machines)
      if (!context.room && machines_[id].can_take(OrgId("acme"), order(1).shape))
        context.room = Room{id, "host:1"};
    auto events = SlotAggregate::decide(s, command, context);
    if (!events) {
      EXPECT_TRUE(events.error().reason == "StartNotReleased" || events.error().reason == "UnknownStart");
      return;
    }
    for (const auto& e : *events) {
      SlotAggregate::evolve(s, e);
      check(s, e);
    }
    auto repeat = SlotAggregate::decide(s, command, context);
    if (repeat && !std::holds_alternative<Place>(command) && !std::holds_alternative<Fund>(command))
      EXPECT_TRUE(events->empty() || repeat->empty()) << "a repeat yields no events: " << describe(repeat);
    check_world();
  }

  void machine_does(const MachineId& id, const MachineCommand& command) {
    auto events = MachineAggregate::decide(machines_[id], command, {now_});
    ASSERT_TRUE(events) << events.error().message;
    ASSERT_EQ(events->size(), 1u) << "capacity moves exactly once";
    for (const auto& e : *events) MachineAggregate::evolve(machines_[id], e);
  }

  void check(const SlotState& s, const SlotEvent& event) {
    auto advance = [&](Instant at) {
      if (at == kNever) return;
      EXPECT_GE(at, newest_[s.order.sandbox]);
      newest_[s.order.sandbox] = std::max(newest_[s.order.sandbox], at);
    };
    if (const auto* e = std::get_if<Offered>(&event)) {
      ends_[{e->slot.sandbox, e->slot.start}] = 0;
      advance(e->at);
    } else if (const auto* lapsed = std::get_if<Lapsed>(&event)) {
      ++ends_[{lapsed->slot.sandbox, lapsed->slot.start}];
      advance(lapsed->at);
    } else if (const auto* r = std::get_if<Reserved>(&event)) {
      ++reserved;
      EXPECT_EQ(r->slot.epoch, ++epochs_[r->slot.sandbox]);
      advance(r->times.reserved_at);
      machine_does(r->machine, Take{r->slot.sandbox, r->slot.epoch, r->slot.org, s.order.shape});
    } else if (const auto* gone = std::get_if<RestorePointReleased>(&event)) {
      EXPECT_TRUE(gone_.insert(gone->slot.sandbox).second) << "told once";
      advance(gone->at);
    } else if (const auto* started = std::get_if<Started>(&event)) {
      advance(started->times.started_at);
    } else if (const auto* done = std::get_if<Released>(&event)) {
      ++ends_[{done->slot.sandbox, done->slot.start}];
      const Times& t = done->times;
      advance(t.released_at);
      EXPECT_NE(t.reserved_at, kNever);
      EXPECT_LE(t.reserved_at, std::max(t.started_at, t.reserved_at));
      if (t.stopping_at != kNever) EXPECT_LE(std::max(t.reserved_at, t.started_at), t.stopping_at);
      EXPECT_LE(std::max({t.reserved_at, t.started_at, t.stopping_at}), t.released_at);
      machine_does(s.machine, Free{done->slot.sandbox, done->slot.epoch});
    }
  }

  void check_world() {
    std::set<SandboxUid> held;
    for (const auto& [id, m] : machines_) {
      Shape sum;
      for (const auto& [uid, holding] : m.holdings) {
        sum = sum + holding.shape;
        EXPECT_TRUE(held.insert(uid).second) << "two live epochs of " << uid.str();
        EXPECT_EQ(holding.epoch, slots_[uid].epoch);
        EXPECT_TRUE(slots_[uid].live());
      }
      EXPECT_EQ(sum, m.used);
      EXPECT_TRUE(m.used.fits_in(m.capacity));
    }
    for (const auto& [uid, s] : slots_) EXPECT_EQ(s.live(), held.contains(uid));
    for (const auto& [offer, ends] : ends_) EXPECT_LE(ends, 1);
  }

  std::mt19937_64 random_;
  Instant now_ = kT0;
  std::map<SandboxUid, SlotState> slots_;
  std::map<MachineId, MachineState> machines_;
  std::vector<std::pair<SandboxUid, SlotCommand>> sent_;
  std::set<SandboxUid> deleted_;
  std::set<SandboxUid> gone_;
  std::map<std::pair<SandboxUid, int64_t>, int> ends_;
  std::map<SandboxUid, int64_t> epochs_;
  std::map<SandboxUid, Instant> newest_;
};

TEST(SlotProperties, HoldUnderAnyInterleaving) {
  int reserved = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    World world(seed);
    for (int i = 0; i < kSteps; ++i) world.step();
    world.drain();
    reserved += world.reserved;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(reserved, 2000) << "the runs reached machines";
}

}  // namespace
}  // namespace nodus::scheduler::test
