#include "services/metering/domain/settle.hpp"

#include <algorithm>

#include "libs/base/check.hpp"
#include "services/metering/domain/credits.hpp"
#include "services/metering/domain/lots.hpp"
#include "services/metering/domain/storage.hpp"

namespace nodus::metering {

namespace {

using charge::Outcome;
using charge::Phase;

Owner owner_of(const SlotRef& slot) {
  return {slot.org, slot.project};
}

// The balance ended before at_s: the lines end where it did. Deterministic in the facts, however late the
// deadline that says so.
void settle_balance(Draft& draft, const OrgId& org, MoneySecond at_s, const Context& context) {
  draft.account.org = org;
  while (auto end = account::next_end(draft.account, at_s, context.brake)) draft.emit(std::move(*end));
}

bool is_current(const Draft& draft, const SlotRef& slot) {
  return draft.charge.current && draft.current().slot.start == slot.start;
}

// A reservation must follow a funding of the same start. Stale and repeated reports are not reservations.
bool never_funded(const Draft& draft, const SlotRef& slot) {
  if (slot.start > draft.charge.last_start) return true;
  return slot.start == draft.charge.last_start && draft.charge.last_outcome != Outcome::kClosed;
}

std::unexpected<Error> not_funded(const SlotRef& slot) {
  return fail(Code::kConflict, "ReservedWithoutFunding",
              "Start " + std::to_string(slot.start) + " of Sandbox " + slot.uid.str() +
                  " holds a slot that was never funded.");
}

void free_hold(Draft& draft, const Context& context) {
  const charge::Start start = draft.current();
  draft.emit(charge::OfferReleased{start.slot, context.now});
  const SlotRef& slot = start.slot;
  draft.emit(account::HoldFreed{slot.org, slot.uid, slot.start, start.hold});
  if (start.budgeted) draft.emit(budget::HoldFreed{slot.org, slot.project, slot.uid, slot.start, start.hold});
  tell_funds(draft, owner_of(slot), context);
}

void refuse(Draft& draft, const SlotRef& slot, std::string reason, std::string limit, Money hold,
            Money available, const Context& context) {
  draft.emit(charge::StartRefused{slot, std::move(reason), std::move(limit), hold,
                                  std::max(available, Money()), context.now});
}

// Whether balance, maxCostUSD and every Budget leave the hold of this start; what refuses it first is told.
bool refused(Draft& draft, const JudgeOffer& command, Money hold, const Context& context) {
  const SlotRef& slot = command.slot;
  const MoneySecond now_s = to_money_second(context.now);
  const Money available = account::available(draft.account, now_s);
  if (available < hold) {
    refuse(draft, slot, "InsufficientCredits", "balance", hold, available, context);
    draft.emit(account::RefusalNoted{slot.org, hold});
    return true;
  }
  if (command.max_cost && *command.max_cost - draft.charge.closed_total < hold) {
    refuse(draft, slot, "BudgetExceeded", "maxCostUSD", hold, *command.max_cost - draft.charge.closed_total,
           context);
    return true;
  }
  const auto* least = budget::tightest(draft.budget, now_s);
  if (least == nullptr) return false;
  const Money left = budget::available(draft.budget, *least, now_s);
  if (left >= hold) return false;
  refuse(draft, slot, "BudgetExceeded", "budget/" + least->name, hold, left, context);
  draft.emit(budget::RefusalNoted{slot.org, slot.project, hold});
  return true;
}

Result<void> on(Draft& draft, const JudgeOffer& command, const Context& context) {
  const SlotRef& slot = command.slot;
  if (slot.start <= draft.charge.last_start) return {};
  if (draft.charge.current) {
    if (draft.current().phase == Phase::kOpen)
      return fail(Code::kConflict, "IntervalStillOpen",
                  "Start " + std::to_string(draft.current().slot.start) + " of Sandbox " + slot.uid.str() +
                      " is not released, yet another is offered.");
    free_hold(draft, context);
  }
  if (!context.price)
    return fail(Code::kUnavailable, "NoPriceBook", "No price version is in force; publish one.");
  // A new month has begun: what the last one left is settled first, so that the hold counts in the new one.
  const MoneySecond month_s = budget::month_of(to_money_second(context.now));
  if (month_s > draft.budget.month_s) settle(draft, owner_of(slot), month_s, Reach::kBefore, context.brake);
  const auto prices = prices_of(command.shape, command.machine_type, *context.price);
  if (!prices)
    return fail(Code::kConflict, "MachineTypeUnpriced",
                "Price version " + context.price->version + " has no price for machines of type " +
                    command.machine_type + "; publish one, then replay the offer.");
  // What the platform restarts by itself pays the lower of the old and the new rate.
  Rate rate = rate_of(*prices);
  if (command.recovery && draft.charge.last_rate) rate = std::min(rate, *draft.charge.last_rate);
  // What has expired funds nothing, though no deadline has said so yet.
  if (account::next_expiry(draft.account, to_money_second(context.now)))
    settle_balance(draft, slot.org, to_money_second(context.now), context);
  const Money hold = rate * context.hold.count();
  if (refused(draft, command, hold, context)) return {};
  draft.emit(charge::StartFunded{.slot = slot,
                                 .sandbox_name = command.sandbox_name,
                                 .price_version = context.price->version,
                                 .rate = rate,
                                 .hold = hold,
                                 .max_cost = command.max_cost,
                                 .at = context.now,
                                 .prices = *prices,
                                 .recovery = command.recovery});
  draft.emit(account::HoldPlaced{slot.org, slot.uid, slot.start, rate, hold});
  draft.emit(budget::HoldPlaced{slot.org, slot.project, slot.uid, slot.start, hold});
  return {};
}

Result<void> on(Draft& draft, const EndOffer& command, const Context& context) {
  if (is_current(draft, command.slot) && draft.current().phase == Phase::kFunded) {
    settle(draft, owner_of(command.slot), to_money_second(command.at), Reach::kBefore, context.brake);
    free_hold(draft, context);
  }
  if (command.deleted) drop_storage(draft, command.slot, command.at, context);
  return {};
}

// Where maxCostUSD is used up. What the platform started anew by itself pays from Running on, so its cap is
// not known before.
std::optional<MoneySecond> cap_second(const Draft& draft, const charge::Start& start,
                                      const std::optional<Money>& max_cost) {
  if (!max_cost) return std::nullopt;
  const auto from_s = charge::pays_from(start);
  const auto paid = seconds_paid(*max_cost - draft.charge.closed_total, start.rate);
  return from_s && paid ? std::optional(*from_s + *paid) : std::nullopt;
}

// It became Running: now its cap is known.
void arm_cap(Draft& draft) {
  const charge::Start start = draft.current();
  if (!start.recovery || start.capped || !start.max_cost) return;
  const auto cap_s = cap_second(draft, start, start.max_cost);
  if (cap_s != start.cap_s) draft.emit(charge::CapRaised{start.slot, *start.max_cost, cap_s});
}

void note(Draft& draft, const Times& news) {
  const Times known = draft.current().times;
  if (merge(known, news) == known) return;
  draft.emit(charge::InstantsNoted{draft.current().slot, news});
  if (draft.current().times.started != known.started) arm_cap(draft);
}

void open(Draft& draft, const SlotRef& slot, Instant reserved_at, const Context& context) {
  const charge::Start start = draft.current();
  const MoneySecond from_s =
      std::max({to_money_second(reserved_at), draft.charge.last_released_s, draft.charge.stored_to_s,
                draft.charge.stored ? draft.charge.stored->from_s : 0});
  settle(draft, owner_of(slot), from_s, Reach::kBefore, context.brake);
  end_storage(draft, from_s, context);
  charge::Start opened = start;
  opened.from_s = from_s;
  draft.emit(charge::ChargeOpened{slot, start.rate, reserved_at, from_s,
                                  cap_second(draft, opened, start.max_cost), draft.account.era,
                                  draft.budget.era});
  draft.emit(account::AccrualStarted{slot.org, slot.uid, slot.start, start.rate, from_s, start.hold});
  if (start.budgeted)
    draft.emit(budget::SpendStarted{slot.org, slot.project, slot.uid, slot.start, start.hold, start.rate,
                                    from_s, draft.account.era});
}

Result<void> on(Draft& draft, const OpenCharge& command, const Context& context) {
  if (!command.times.reserved)
    return fail(Code::kInvalid, "InstantMissing", "A reservation without its instant.");
  if (!is_current(draft, command.slot)) {
    if (never_funded(draft, command.slot)) return not_funded(command.slot);
    return {};
  }
  if (draft.current().phase == Phase::kFunded) open(draft, command.slot, *command.times.reserved, context);
  return {};
}

Result<void> on(Draft& draft, const NoteInstants& command, const Context&) {
  if (!is_current(draft, command.slot) || draft.current().phase != Phase::kOpen) return {};
  Times news = command.times;
  news.released.reset();  // only a release says when it ended
  const auto& declined = draft.current().declined;
  if (news.stopping && declined && *news.stopping <= *declined) news.stopping.reset();
  note(draft, news);
  return {};
}

// Whether money ended meanwhile is judged next: the rows of its deadlines are armed anew.
Result<void> on(Draft& draft, const DeclineStop& command, const Context&) {
  if (!is_current(draft, command.slot) || draft.current().phase != Phase::kOpen) return {};
  const auto stopping = draft.current().times.stopping;
  if (stopping) draft.emit(charge::StopDeclined{draft.current().slot, *stopping});
  return {};
}

// In time, or too late: a start whose cap was told to be reached ends, and pays nothing beyond it.
Result<void> on(Draft& draft, const RaiseCap& command, const Context&) {
  if (!is_current(draft, command.slot) || draft.current().capped) return {};
  const charge::Start& start = draft.current();
  if (start.max_cost && command.max_cost <= *start.max_cost) return {};
  charge::CapRaised raised{start.slot, command.max_cost, std::nullopt};
  if (start.phase == Phase::kOpen) {
    const Money before = draft.charge.closed_total;
    raised.cap_s = cap_second(draft, start, command.max_cost);
    // Added below what it has cost already: that is not taken back.
    const auto from_s = charge::pays_from(start).value_or(start.from_s);
    const auto now_s = std::max(to_money_second(command.at), from_s);
    if (!start.max_cost && raised.cap_s && *raised.cap_s < now_s) {
      raised.cap_s = now_s;
      raised.max_cost = before + start.rate * (now_s - from_s);
    }
  }
  draft.emit(std::move(raised));
  return {};
}

void close(Draft& draft, const CloseCharge& command, Instant released, const Context& context) {
  const MoneySecond end_s = std::max(to_money_second(released), draft.current().from_s);
  if (draft.current().recovery) note(draft, {.started = command.times.started});
  settle(draft, owner_of(draft.current().slot), end_s, Reach::kBefore, context.brake);
  const charge::Start start = draft.current();
  const SlotRef& slot = start.slot;
  const Standing stood = standing(draft);
  auto lines = rate_lines(merge(start.times, command.times), start.from_s, end_s, start.rate,
                          money_end(draft, stood), start.recovery);
  const Money amount = total(lines);
  MoneySecond paid_from_s = start.from_s, paid_to_s = start.from_s;  // one piece, whatever is waived
  for (const auto& line : lines) {
    if (line.waived) continue;
    if (paid_from_s == paid_to_s) paid_from_s = line.from_s;
    paid_to_s = line.to_s;
  }
  draft.emit(charge::ChargeClosed{slot, start.rate, std::move(lines), amount,
                                  draft.charge.closed_total + amount, end_s, context.now});
  draft.emit(account::AccrualEnded{slot.org, slot.uid, slot.start, end_s, amount, start.rate, start.from_s,
                                   start.hold, stood.account, stood.account_end_s.value_or(0), start.era});
  draft.emit(budget::SpendEnded{.org = slot.org,
                                .project = slot.project,
                                .uid = slot.uid,
                                .start = slot.start,
                                .hold = start.hold,
                                .rate = start.rate,
                                .from_s = start.from_s,
                                .paid_from_s = paid_from_s,
                                .paid_to_s = paid_to_s,
                                .amount = amount,
                                .line = stood.budget,
                                .flat_s = stood.budget_end_s.value_or(0),
                                .era = start.budget_era});
  if (!command.deleted) open_storage(draft, command, start.sandbox_name, end_s, context);
  tell_funds(draft, owner_of(slot), context);
}

Result<void> on(Draft& draft, const CloseCharge& command, const Context& context) {
  if (!is_current(draft, command.slot)) {
    if (command.times.reserved && never_funded(draft, command.slot)) return not_funded(command.slot);
    return {};
  }
  if (!command.times.released)
    return fail(Code::kInvalid, "InstantMissing", "A release without its instant.");
  if (draft.current().phase == Phase::kFunded) {
    if (!command.times.reserved) {  // ended before a machine was reserved
      free_hold(draft, context);
      if (command.deleted) drop_storage(draft, command.slot, *command.times.released, context);
      return {};
    }
    open(draft, command.slot, *command.times.reserved, context);
  }
  close(draft, command, *command.times.released, context);
  return {};
}

Result<void> on(Draft& draft, const JudgeMoney& command, const Context& context) {
  if (!is_current(draft, command.slot) || draft.current().phase != Phase::kOpen) return {};
  settle(draft, owner_of(draft.current().slot), to_money_second(command.at), reach_of(command.at),
         context.brake);
  const charge::Start& start = draft.current();
  const Standing stands = standing(draft);
  const auto ended_s = stands.ended_s();
  if (!start.capped && ended_s && !start.paid_until_s) draft.emit(charge::PaidUntil{start.slot, *ended_s});
  if (start.stop_ordered || start.times.stopping || context.brake) return {};
  const auto order = [&](charge::StopReason reason) {
    draft.emit(charge::StopOrdered{start.slot, reason, context.now});
  };
  const auto stop_s = account::stop_at(draft.account, context.stop_reserve);
  const bool low = stop_s && to_instant(*stop_s) <= command.at;
  if (start.capped)
    order(charge::StopReason::kMaxCostReached);
  else if (stands.by_budget)
    order(charge::StopReason::kBudgetExceeded);
  else if (ended_s || low)
    order(charge::StopReason::kInsufficientCredits);
  return {};
}

Result<void> on(Draft& draft, const DropStorage& command, const Context& context) {
  drop_storage(draft, command.slot, command.at, context);
  return {};
}

Result<void> on(Draft& draft, const JudgeStorage& command, const Context& context) {
  judge_storage(draft, command, context);
  return {};
}

Result<void> on(Draft& draft, const PostCredit& command, const Context& context) {
  if (!command.posted) settle_balance(draft, command.org, to_money_second(context.now), context);
  auto events = post_credit(draft.account, command, context.now);
  if (!events) return std::unexpected(std::move(events.error()));
  for (auto& event : *events) draft.emit(std::move(event));
  return {};
}

Result<void> on(Draft& draft, const JudgeBalance& command, const Context& context) {
  settle_balance(draft, command.org, to_money_second(command.at), context);
  return {};
}

}  // namespace

const SlotRef& slot_of(const Command& command) {
  return std::visit([](const auto& c) -> const SlotRef& { return c.slot; }, command);
}

Result<Events> decide(const charge::State& charge, const account::State& account, const budget::State& budget,
                      const Command& command, const Context& context) {
  Draft draft{charge, account, budget, {}};
  auto done = std::visit([&](const auto& c) { return on(draft, c, context); }, command);
  if (!done) return std::unexpected(std::move(done.error()));
  return std::move(draft.events);
}

Result<std::vector<account::Event>> decide(const account::State& account, const AccountCommand& command,
                                           const Context& context) {
  Draft draft{{}, account, {}, {}};
  auto done = std::visit([&](const auto& c) { return on(draft, c, context); }, command);
  if (!done) return std::unexpected(std::move(done.error()));
  return std::move(draft.events.account);
}

}  // namespace nodus::metering
