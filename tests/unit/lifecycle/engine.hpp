// One Sandbox's life through the pure cores of lifecycle and scheduler, a model of metering and of a node,
// and queues in between that deliver in order, late, and sometimes twice. Every step is drawn from a seed.
// What must never happen is checked where it would happen. Invariants 2, 6, 7 and 9 of the architecture.
#pragma once

#include <deque>
#include <map>
#include <random>
#include <set>

#include "services/scheduler/domain/slot.hpp"
#include "tests/unit/lifecycle/sandbox_fixture.hpp"

namespace nodus::lifecycle::test {

namespace sched = nodus::scheduler;

// A slot on the node: what runs in it and when it was last used.
struct NodeSlot {
  bool up = false;
  int commands = 0;  // live ones of people
  bool daemon = false;
  Instant last_activity;
  bool open() const { return up; }
  bool busy() const { return commands > 0 || daemon; }
};

struct Funds {
  bool rich = true;
  std::optional<Instant> changed_at;
};

class Engine {
 public:
  Engine(uint64_t seed, SandboxSpec spec) : random_(seed), spec_(std::move(spec)) {
    lifecycle(CreateSandbox{created(), pick(8) != 0});
  }

  void step();   // one thing happens, somewhere
  void drain();  // everybody is up and answers until nothing is left to say
  void pass(Micros by) { now_ += by; }
  Instant now() const { return now_; }
  const Sandbox& sandbox() const { return sandbox_; }
  const std::map<int64_t, int>& ends_of_starts() const { return ends_; }
  int64_t starts() const { return starts_; }

 private:
  using ToScheduler = sched::SlotCommand;
  using ToLifecycle = SandboxCommand;

  int64_t pick(int64_t below) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(below)); }
  SandboxCreated created() const {
    SandboxCreated c = hello();
    c.spec = spec_;
    c.at = now_;
    return c;
  }

  bool lifecycle(const SandboxCommand& command);
  void publish(const SandboxEvent& event);
  void scheduler(const sched::SlotCommand& command, bool room);
  void publish(const sched::SlotEvent& event);
  void node();
  void node_stop(NodeSlot& slot);
  void report(sched::NodeSays says);
  void a_person();
  void a_command();
  void a_node_event();
  void deadlines(bool early);
  void deliver(bool twice);
  bool deliver_one(bool twice);
  void check(const Sandbox& before);

  std::mt19937_64 random_;
  SandboxSpec spec_;
  Instant now_ = at_s(0);
  Sandbox sandbox_;
  sched::SlotState slot_;
  Funds money_;
  std::map<int64_t, NodeSlot> node_;        // by epoch
  std::deque<ToScheduler> to_scheduler_;    // lifecycle's topic
  std::deque<ToScheduler> funding_;         // metering's topic, as the scheduler reads it
  std::deque<ToLifecycle> from_scheduler_;  // the scheduler's topic
  std::deque<ToLifecycle> from_metering_;   // metering's topic, as lifecycle reads it
  std::map<int64_t, int> ends_;             // start → how often its offer or slot ended
  std::set<int64_t> funded_;
  int64_t starts_ = 0;
};

}  // namespace nodus::lifecycle::test
