// Decisions about the Budgets of a project.
#include <algorithm>

#include "services/metering/domain/settle.hpp"

namespace nodus::metering {

namespace {

// The limit is new: thresholds that are no longer reached are told to be so, others that are now, too.
void tell_change(Draft& draft, const Owner& owner, const std::string& name, MoneySecond now_s) {
  const auto* found = budget::find(draft.budget, name);
  const Money spent = budget::spent(draft.budget, *found, now_s);
  const auto reaches = [&](int percent) { return spent.pico() * 100 >= found->spec.limit.pico() * percent; };
  if (found->reached > 0 && !reaches(found->reached) && !found->exhausted_s) {
    int still = 0;
    for (const int percent : found->spec.thresholds)
      if (percent < found->reached && reaches(percent)) still = percent;
    draft.emit(budget::Recovered{owner.org, owner.project, name, still, now_s, found->spec.limit, spent});
  }
  tell_thresholds(draft, owner, now_s);
}

Result<void> on(Draft& draft, const PutBudget& command, const Context& context) {
  const auto* existing = budget::find(draft.budget, command.name);
  if (existing == nullptr && !command.create)
    return fail(Code::kNotFound, "NotFound", "There is no Budget \"" + command.name + "\" in this project.");
  const bool other = existing != nullptr &&
                     ((command.expected_generation && *command.expected_generation != existing->generation) ||
                      (!command.expected_uid.empty() && command.expected_uid != existing->uid));
  if (other)
    return fail(Code::kConflict, "Conflict",
                "Budget \"" + command.name + "\" was changed meanwhile; read it, and change it again.");
  const bool same_metadata =
      existing != nullptr && (command.create || existing->metadata == command.metadata);
  if (existing != nullptr && existing->spec == command.spec && same_metadata) return {};
  if (existing != nullptr && command.create)
    return fail(Code::kConflict, "AlreadyExists",
                "Budget \"" + command.name + "\" exists with another spec; change it with PUT or PATCH.");
  if (existing == nullptr && draft.budget.budgets.size() >= budget::kMaxBudgets)
    return fail(
        Code::kConflict, "TooManyBudgets",
        "A project has at most " + std::to_string(budget::kMaxBudgets) + " Budgets; delete one first.");
  const Owner owner{command.org, command.project};
  const MoneySecond now_s = to_money_second(context.now);
  settle(draft, owner, now_s, Reach::kBefore, context.brake);
  draft.emit(budget::BudgetSet{command.org, command.project, command.name, command.uid, command.spec,
                               command.author, context.now, command.metadata});
  tell_change(draft, owner, command.name, now_s);
  settle(draft, owner, now_s, Reach::kDue, context.brake);  // lowered below what is spent: it ends here
  tell_funds(draft, owner, context);
  return {};
}

Result<void> on(Draft& draft, const DeleteBudget& command, const Context& context) {
  if (budget::find(draft.budget, command.name) == nullptr)
    return fail(Code::kNotFound, "NotFound", "There is no Budget \"" + command.name + "\" in this project.");
  const Owner owner{command.org, command.project};
  settle(draft, owner, to_money_second(context.now), Reach::kBefore, context.brake);
  draft.emit(budget::BudgetDeleted{command.org, command.project, command.name, command.author, context.now});
  tell_funds(draft, owner, context);
  return {};
}

Result<void> on(Draft& draft, const JudgeBudget& command, const Context& context) {
  const Owner owner{command.org, command.project};
  settle(draft, owner, to_money_second(command.at), reach_of(command.at), context.brake);
  tell_funds(draft, owner, context);
  return {};
}

}  // namespace

Result<Events> decide(const account::State& account, const budget::State& budget,
                      const BudgetCommand& command, const Context& context) {
  Draft draft{{}, account, budget, {}};
  auto done = std::visit([&](const auto& c) { return on(draft, c, context); }, command);
  if (!done) return std::unexpected(std::move(done.error()));
  return std::move(draft.events);
}

}  // namespace nodus::metering
