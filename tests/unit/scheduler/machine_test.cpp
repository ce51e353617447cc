#include "services/scheduler/domain/machine.hpp"

#include <gtest/gtest.h>

#include "services/scheduler/domain/placement.hpp"
#include "tests/unit/scheduler/readme.hpp"

namespace nodus::scheduler {
namespace {

const Shape kWhole{4000, 8000, 8000};
const Shape kPart{1000, 2000, 2000};

Register registration(const std::string& org = "acme") {
  return {MachineId("m1"), OrgId(org), kWhole, "10.0.0.1:7410", "runsc", "boot-1"};
}

struct Driver {
  MachineState state;
  Result<size_t> when(const MachineCommand& command) {
    auto events = MachineAggregate::decide(state, command, {from_micros(1)});
    if (!events) return std::unexpected(events.error());
    for (const auto& e : *events) MachineAggregate::evolve(state, e);
    return events->size();
  }
};

struct Name {
  std::string operator()(const MachineRegistered&) const { return "MachineRegistered"; }
  std::string operator()(const CapacityTaken&) const { return "MachineCapacityTaken"; }
  std::string operator()(const CapacityFreed&) const { return "MachineCapacityFreed"; }
  std::string operator()(const MachineLost&) const { return "MachineLost"; }
};

std::string outcome(const MachineState& state, const MachineCommand& command) {
  const auto events = MachineAggregate::decide(state, command, {from_micros(1)});
  if (!events) return events.error().reason;
  std::string text;
  for (const auto& e : *events) text += std::visit(Name{}, e);
  return text.empty() ? "-" : text;
}

MachineState in_state(const std::string& name) {
  Driver d;
  if (name == "Unknown") return d.state;
  EXPECT_TRUE(d.when(registration()));
  const OrgId org("acme");
  if (name == "Full") EXPECT_TRUE(d.when(Take{SandboxUid("other"), 1, org, kWhole}));
  if (name == "Holding" || name == "Lost") EXPECT_TRUE(d.when(Take{SandboxUid("a"), 1, org, kPart}));
  if (name == "Lost") EXPECT_TRUE(d.when(DeclareLost{MachineId("m1")}));
  return d.state;
}

TEST(MachineTable, EveryCellOfTheReadme) {
  auto changed = registration(), anew = registration();
  changed.data_path = "10.0.0.2:7410";
  anew.incarnation = "boot-2";
  const SandboxUid a("a");
  const std::map<std::string, MachineCommand> rows = {
      {"first sync, or anything it says of itself changed", changed},
      {"sync of another incarnation", anew},
      {"sync, nothing new", registration()},
      {"sync for another organization", registration("other")},
      {"slot reserved", Take{a, 1, OrgId("acme"), kPart}},
      {"another slot reserved", Take{SandboxUid("b"), 1, OrgId("acme"), kPart}},
      {"slot reserved, another organization's", Take{SandboxUid("b"), 1, OrgId("other"), kPart}},
      {"slot released", Free{a, 1}},
      {"slot released, another epoch", Free{a, 2}},
      {"declared lost", DeclareLost{MachineId("m1")}},
  };
  const auto table = test::read_table("| message | Unknown |");
  EXPECT_EQ(table.rows.size(), rows.size());
  for (const auto& row : table.rows)
    for (size_t i = 1; i < row.size(); ++i)
      EXPECT_EQ(outcome(in_state(table.states[i]), rows.at(row[0])), row[i])
          << row[0] << " in state " << table.states[i];
}

TEST(Machine, RegistersOnceAndAgainWhenItChanges) {
  Driver d;
  EXPECT_EQ(d.when(registration()), 1u);
  EXPECT_EQ(d.when(registration()), 0u);
  auto rebooted = registration();
  rebooted.incarnation = "boot-2";
  EXPECT_EQ(d.when(rebooted), 1u);
  EXPECT_EQ(d.state.incarnation, "boot-2");
}

TEST(Machine, ALostIncarnationNeverComesBack) {
  Driver d;
  ASSERT_TRUE(d.when(registration()));
  ASSERT_TRUE(d.when(DeclareLost{MachineId("m1")}));
  auto anew = registration();
  anew.incarnation = "boot-2";
  EXPECT_EQ(d.when(anew), 1u);
  EXPECT_FALSE(d.state.lost());
  EXPECT_EQ(d.when(Take{SandboxUid("a"), 1, OrgId("acme"), kPart}), 1u);
  EXPECT_EQ(d.when(registration()).error().reason, "MachineIsLost") << "words that were long under way";
}

TEST(Machine, ServesOneOrganizationForGood) {
  Driver d;
  ASSERT_TRUE(d.when(registration()));
  EXPECT_EQ(d.when(registration("other")).error().reason, "OtherOrganization");
  EXPECT_EQ(d.when(Take{SandboxUid("a"), 1, OrgId("other"), kPart}).error().reason, "MachineFull");
}

TEST(Machine, TakesNoMoreThanItHas) {
  Driver d;
  EXPECT_EQ(d.when(Take{SandboxUid("a"), 1, OrgId("acme"), kPart}).error().reason, "MachineFull");
  ASSERT_TRUE(d.when(registration()));
  for (const char* uid : {"a", "b", "c", "d"})
    EXPECT_EQ(d.when(Take{SandboxUid(uid), 1, OrgId("acme"), kPart}), 1u);
  EXPECT_EQ(d.when(Take{SandboxUid("e"), 1, OrgId("acme"), kPart}).error().reason, "MachineFull");
  EXPECT_EQ(d.when(Take{SandboxUid("a"), 1, OrgId("acme"), kPart}), 0u) << "a repeat";
  EXPECT_EQ(d.when(Free{SandboxUid("a"), 2}), 0u) << "another epoch";
  EXPECT_EQ(d.when(Free{SandboxUid("a"), 1}), 1u);
  EXPECT_EQ(d.when(Free{SandboxUid("a"), 1}), 0u) << "a repeat";
  EXPECT_EQ(d.state.used, (Shape{3000, 6000, 6000}));
}

TEST(Machine, ShrinkingBelowWhatIsTakenTakesNothingMore) {
  Driver d;
  ASSERT_TRUE(d.when(registration()));
  ASSERT_TRUE(d.when(Take{SandboxUid("a"), 1, OrgId("acme"), kPart}));
  auto smaller = registration();
  smaller.capacity = {500, 500, 500};
  ASSERT_TRUE(d.when(smaller));
  EXPECT_FALSE(d.state.can_take(OrgId("acme"), Shape{1, 1, 1}));
}

MachineView view(const std::string& id, Shape used, const std::string& org = "acme") {
  return {MachineId(id), OrgId(org), kWhole, used};
}

TEST(Placement, BestFitFirstThenTheFullOnes) {
  const std::vector<MachineView> fleet = {
      view("empty", {}), view("full", kWhole), view("half", {2000, 4000, 0}),
      view("foreign", {3000, 6000, 0}, "other"), view("tight", {3000, 6000, 0})};
  const auto plan = plan_placement(fleet, OrgId("acme"), kPart, 10);
  EXPECT_EQ(plan.machines,
            (std::vector{MachineId("tight"), MachineId("half"), MachineId("empty"), MachineId("full")}));
  EXPECT_EQ(plan.fitting, 3u);
  EXPECT_EQ(plan_placement(fleet, OrgId("acme"), kPart, 2).machines.size(), 2u);
}

TEST(Placement, NeverAMachineThatIsTooSmall) {
  const std::vector<MachineView> fleet = {view("m1", {})};
  EXPECT_TRUE(plan_placement(fleet, OrgId("acme"), Shape{4001, 1, 1}, 4).machines.empty());
  EXPECT_TRUE(plan_placement(fleet, OrgId("nobody"), kPart, 4).machines.empty());
}

TEST(Placement, TheSameSnapshotGivesTheSamePlan) {
  const std::vector<MachineView> one = {view("a", {}), view("b", {})};
  const std::vector<MachineView> two = {view("b", {}), view("a", {})};
  EXPECT_EQ(plan_placement(one, OrgId("acme"), kPart, 4).machines,
            plan_placement(two, OrgId("acme"), kPart, 4).machines);
}

}  // namespace
}  // namespace nodus::scheduler
