// given(commands).when(command).then(events): runs commands over in-memory states and tells what happened in
// words.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "services/metering/domain/decide.hpp"

namespace nodus::metering::test {

inline constexpr MoneySecond kT0 = 1'800'000'000;

// 8 pico-dollars a vCPU-second and nothing else: 1 vCPU costs 9 pico a second, its hold is 675.
inline PriceVersion simple_price() {
  return {"2026-01", to_instant(0), Money::from_pico(8), Money(), Money()};
}

inline Instant at(double seconds_after_t0) {
  return to_instant(kT0) + Micros(static_cast<int64_t>(seconds_after_t0 * 1e6));
}

inline SlotRef slot(int64_t start, const std::string& uid = "u1") {
  return {SandboxUid(uid), start, start, OrgId("acme"), ProjectId("web")};
}

struct Step {
  double now;  // seconds after kT0: the service's clock
  std::variant<Command, AccountCommand, BudgetCommand> command;
};

inline Step offer(double now, SlotRef slot, std::optional<Money> max_cost = std::nullopt,
                  int64_t cpu_milli = 1000) {
  return {now, Command(JudgeOffer{std::move(slot), "hello", {cpu_milli, 0, 0}, max_cost})};
}
inline Step lapse(double now, SlotRef slot) {
  return {now, Command(EndOffer{std::move(slot), at(now)})};
}
inline Step reserve(double now, SlotRef slot, double reserved) {
  return {now, Command(OpenCharge{std::move(slot), {.reserved = at(reserved)}})};
}
inline Step note(double now, SlotRef slot, Times times) {
  return {now, Command(NoteInstants{std::move(slot), times})};
}
inline Step decline(double now, SlotRef slot) {
  return {now, Command(DeclineStop{std::move(slot)})};
}
inline Step release(double now, SlotRef slot, Times times) {
  return {now, Command(CloseCharge{std::move(slot), times})};
}
inline Step save(double now, SlotRef slot, Times times, int64_t saved_bytes) {
  return {now, Command(CloseCharge{std::move(slot), times, saved_bytes})};
}
inline Step judge_storage(double now, SlotRef slot) {
  return {now, Command(JudgeStorage{std::move(slot), at(now)})};
}
inline Step drop_storage(double now, SlotRef slot) {
  return {now, Command(DropStorage{std::move(slot), at(now)})};
}
inline Step raise_cap(double now, SlotRef slot, int64_t pico) {
  return {now, Command(RaiseCap{std::move(slot), Money::from_pico(pico), at(now)})};
}
inline Step judge(double now, SlotRef slot) {
  return {now, Command(JudgeMoney{std::move(slot), at(now)})};
}
inline Step judge_late(double now, SlotRef slot, double horizon) {
  return {now, Command(JudgeMoney{std::move(slot), at(horizon)})};
}
inline Step judge_balance(double now) {
  return {now, AccountCommand(JudgeBalance{OrgId("acme"), at(now)})};
}
inline Step credit(double now, int64_t pico, const std::string& id = "g1",
                   std::optional<Money> posted = std::nullopt, const std::string& kind = "Grant") {
  PostCredit command{OrgId("acme"), id, kind, Money::from_pico(pico), "test"};
  if (posted) command.posted = PostedCredit{kind, *posted};
  return {now, AccountCommand(std::move(command))};
}

inline Step put_budget(double now, const std::string& name, int64_t limit,
                       budget::Period period = budget::Period::kTotal, bool create = true,
                       std::vector<int> thresholds = {}) {
  return {now, BudgetCommand(PutBudget{OrgId("acme"),
                                       ProjectId("web"),
                                       name,
                                       "b-1",
                                       {Money::from_pico(limit), period, std::move(thresholds)},
                                       "test",
                                       create})};
}
inline Step change_budget(double now, const std::string& name, int64_t limit,
                          budget::Period period = budget::Period::kTotal, std::vector<int> thresholds = {}) {
  return put_budget(now, name, limit, period, false, std::move(thresholds));
}
inline Step delete_budget(double now, const std::string& name) {
  return {now, BudgetCommand(DeleteBudget{OrgId("acme"), ProjectId("web"), name, "test"})};
}
inline Step judge_budget(double now) {
  return {now, BudgetCommand(JudgeBudget{OrgId("acme"), ProjectId("web"), at(now)})};
}

// In words, with pico-dollars and seconds after kT0: "Funded 1 rate 9 hold 675".
std::string describe(const charge::Event& event);
std::string describe(const account::Event& event);
std::string describe(const budget::Event& event);  // empty: sums only, which the other two tell already

class Scenario {
 public:
  // Runs a command; answers its events in words, or {"error Reason"}.
  std::vector<std::string> run(const Step& step);
  const charge::State& charge(const std::string& uid = "u1") { return charges_[uid]; }
  const account::State& account() const { return account_; }
  const budget::State& budget(const std::string& project = "web") { return budgets_[project]; }
  Context context;

 private:
  std::map<std::string, charge::State> charges_;
  account::State account_;
  std::map<std::string, budget::State> budgets_;
};

}  // namespace nodus::metering::test
