#include "services/metering/domain/decide.hpp"

#include <algorithm>

#include "libs/base/check.hpp"
#include "services/metering/domain/credits.hpp"

namespace nodus::metering {

namespace {

// Collects events while both states move on, so that each step sees what the previous ones did.
struct Draft {
  charge::State charge;
  account::State account;
  Events events;

  const charge::Start& current() const {
    CHECK(charge.current.has_value(), "no start is funded or open");
    return *charge.current;
  }
  void emit(charge::Event event) {
    charge::evolve(charge, event);
    events.charge.push_back(std::move(event));
  }
  void emit(account::Event event) {
    account::evolve(account, event);
    events.account.push_back(std::move(event));
  }
};

using account::LineEnd;
using charge::Outcome;
using charge::Phase;

// How many whole seconds `money` pays; nullopt: any number.
std::optional<MoneySecond> seconds_paid(Money money, Rate rate) {
  if (rate == Rate()) return std::nullopt;
  if (money <= Money()) return 0;
  constexpr int128 kCentury = 3'155'760'000;
  return static_cast<MoneySecond>(std::min<int128>(money.pico() / rate.pico_per_second(), kCentury));
}

// The balance ended before at_s: the lines end where it did. Deterministic in the facts, however late the
// deadline that says so.
void settle_balance(Draft& draft, const OrgId& org, MoneySecond at_s) {
  const auto end = account::ends_at(draft.account);
  if (end && *end < at_s) draft.emit(account::BalanceExhausted{org, *end});
}

LineEnd line_end(const Draft& draft) {
  const charge::Start& start = draft.current();
  if (start.capped) return LineEnd::kCapped;
  return start.era < draft.account.era ? LineEnd::kExhausted : LineEnd::kLive;
}

// Brings the current start's line and the account up to at_s: whichever of cap and balance ended first is
// recorded first.
void settle(Draft& draft, MoneySecond at_s) {
  const charge::Start& start = draft.current();
  const SlotRef slot = start.slot;
  const auto balance_end = account::ends_at(draft.account);
  const auto cap_s = start.cap_s;
  if (line_end(draft) == LineEnd::kLive && cap_s && *cap_s <= at_s &&
      (!balance_end || *cap_s <= *balance_end)) {
    draft.emit(account::AccrualFlattened{slot.org, slot.uid, slot.start, start.rate, start.from_s, *cap_s,
                                         start.hold});
    draft.emit(charge::CapReached{slot, *cap_s});
  }
  settle_balance(draft, slot.org, at_s);
}

// More is available than before: tells so if it is enough for a start that was refused.
void tell_funds(Draft& draft, const OrgId& org, const Context& context) {
  const auto& refused = draft.account.smallest_refused;
  if (refused && account::available(draft.account, to_money_second(context.now)) >= *refused)
    draft.emit(account::FundsChanged{org, context.now});
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
  draft.emit(account::HoldFreed{start.slot.org, start.slot.uid, start.slot.start, start.hold});
  tell_funds(draft, start.slot.org, context);
}

void refuse(Draft& draft, const SlotRef& slot, std::string reason, std::string limit, Money hold,
            Money available, const Context& context) {
  draft.emit(charge::StartRefused{slot, std::move(reason), std::move(limit), hold,
                                  std::max(available, Money()), context.now});
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
  const auto prices = prices_of(command.shape, command.machine_type, *context.price);
  if (!prices)
    return fail(Code::kConflict, "MachineTypeUnpriced",
                "Price version " + context.price->version + " has no price for machines of type " +
                    command.machine_type + "; publish one, then replay the offer.");
  const Rate rate = rate_of(*prices);
  const Money hold = rate * context.hold.count();
  const Money available = account::available(draft.account, to_money_second(context.now));
  if (available < hold) {
    refuse(draft, slot, "InsufficientCredits", "balance", hold, available, context);
    draft.emit(account::RefusalNoted{slot.org, hold});
    return {};
  }
  if (command.max_cost && *command.max_cost - draft.charge.closed_total < hold) {
    refuse(draft, slot, "BudgetExceeded", "maxCostUSD", hold, *command.max_cost - draft.charge.closed_total,
           context);
    return {};
  }
  draft.emit(charge::StartFunded{slot, command.sandbox_name, context.price->version, rate, hold,
                                 command.max_cost, context.now, *prices});
  draft.emit(account::HoldPlaced{slot.org, slot.uid, slot.start, rate, hold});
  return {};
}

Result<void> on(Draft& draft, const EndOffer& command, const Context& context) {
  if (!is_current(draft, command.slot) || draft.current().phase != Phase::kFunded) return {};
  settle_balance(draft, command.slot.org, to_money_second(command.at));
  free_hold(draft, context);
  return {};
}

void open(Draft& draft, const SlotRef& slot, Instant reserved_at) {
  const charge::Start start = draft.current();
  const MoneySecond from_s = std::max(to_money_second(reserved_at), draft.charge.last_released_s);
  settle_balance(draft, slot.org, from_s);
  std::optional<MoneySecond> cap_s;
  if (start.max_cost) {
    if (const auto paid = seconds_paid(*start.max_cost - draft.charge.closed_total, start.rate))
      cap_s = from_s + *paid;
  }
  draft.emit(charge::ChargeOpened{slot, start.rate, reserved_at, from_s, cap_s, draft.account.era});
  draft.emit(account::AccrualStarted{slot.org, slot.uid, slot.start, start.rate, from_s, start.hold});
}

Result<void> on(Draft& draft, const OpenCharge& command, const Context&) {
  if (!command.times.reserved)
    return fail(Code::kInvalid, "InstantMissing", "A reservation without its instant.");
  if (!is_current(draft, command.slot)) {
    if (never_funded(draft, command.slot)) return not_funded(command.slot);
    return {};
  }
  if (draft.current().phase == Phase::kFunded) open(draft, command.slot, *command.times.reserved);
  return {};
}

Result<void> on(Draft& draft, const NoteInstants& command, const Context&) {
  if (!is_current(draft, command.slot) || draft.current().phase != Phase::kOpen) return {};
  Times news = command.times;
  news.released.reset();  // only a release says when it ended
  const auto& declined = draft.current().declined;
  if (news.stopping && declined && *news.stopping <= *declined) news.stopping.reset();
  const Times& known = draft.current().times;
  if (merge(known, news) != known) draft.emit(charge::InstantsNoted{draft.current().slot, news});
  return {};
}

// Whether money ended meanwhile is judged next: the rows of its deadlines are armed anew.
Result<void> on(Draft& draft, const DeclineStop& command, const Context&) {
  if (!is_current(draft, command.slot) || draft.current().phase != Phase::kOpen) return {};
  const auto stopping = draft.current().times.stopping;
  if (stopping) draft.emit(charge::StopDeclined{draft.current().slot, *stopping});
  return {};
}

void close(Draft& draft, const Times& times, Instant released, const Context& context) {
  const MoneySecond end_s = std::max(to_money_second(released), draft.current().from_s);
  settle(draft, end_s);
  const charge::Start start = draft.current();
  const LineEnd line = line_end(draft);
  const auto flat_s = line == LineEnd::kCapped      ? start.cap_s
                      : line == LineEnd::kExhausted ? account::exhausted_at(draft.account, start.era)
                                                    : std::nullopt;
  // Cap, balance line, and, whatever the order in which releases were heard, what is posted.
  std::optional<MoneySecond> paid_until;
  const auto limit = [&](std::optional<MoneySecond> second) {
    if (second && (!paid_until || *second < *paid_until)) paid_until = second;
  };
  limit(start.cap_s);
  limit(flat_s);
  if (const auto paid = seconds_paid(account::balance(draft.account), start.rate))
    limit(start.from_s + *paid);

  auto lines = rate_lines(merge(start.times, times), start.from_s, end_s, start.rate, paid_until);
  const Money amount = total(lines);
  draft.emit(charge::ChargeClosed{start.slot, start.rate, std::move(lines), amount,
                                  draft.charge.closed_total + amount, end_s, context.now});
  draft.emit(account::AccrualEnded{start.slot.org, start.slot.uid, start.slot.start, end_s, amount,
                                   start.rate, start.from_s, start.hold, line, flat_s.value_or(0),
                                   start.era});
  tell_funds(draft, start.slot.org, context);
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
      return {};
    }
    open(draft, command.slot, *command.times.reserved);
  }
  close(draft, command.times, *command.times.released, context);
  return {};
}

Result<void> on(Draft& draft, const JudgeMoney& command, const Context& context) {
  if (!is_current(draft, command.slot) || draft.current().phase != Phase::kOpen) return {};
  settle(draft, to_money_second(command.at));
  const charge::Start& start = draft.current();
  if (line_end(draft) == LineEnd::kExhausted && !start.paid_until_s) {
    const auto end = account::exhausted_at(draft.account, start.era);
    CHECK(end.has_value(), "era {} is not exhausted", start.era);
    draft.emit(charge::PaidUntil{start.slot, *end});
  }
  if (start.stop_ordered || start.times.stopping) return {};
  if (start.capped) {
    draft.emit(charge::StopOrdered{start.slot, charge::StopReason::kMaxCostReached, context.now});
    return {};
  }
  const auto stop_s = account::stop_at(draft.account, context.stop_reserve);
  const bool low = stop_s && to_instant(*stop_s) <= command.at;
  if (line_end(draft) == LineEnd::kExhausted || low)
    draft.emit(charge::StopOrdered{start.slot, charge::StopReason::kInsufficientCredits, context.now});
  return {};
}

Result<void> on(Draft& draft, const PostCredit& command, const Context& context) {
  if (!command.posted) settle_balance(draft, command.org, to_money_second(context.now));
  auto events = post_credit(draft.account, command, context.now);
  if (!events) return std::unexpected(std::move(events.error()));
  for (auto& event : *events) draft.emit(std::move(event));
  return {};
}

Result<void> on(Draft& draft, const JudgeBalance& command, const Context&) {
  settle_balance(draft, command.org, to_money_second(command.at));
  return {};
}

}  // namespace

const SlotRef& slot_of(const Command& command) {
  return std::visit([](const auto& c) -> const SlotRef& { return c.slot; }, command);
}

Result<Events> decide(const charge::State& charge, const account::State& account, const Command& command,
                      const Context& context) {
  Draft draft{charge, account, {}};
  auto done = std::visit([&](const auto& c) { return on(draft, c, context); }, command);
  if (!done) return std::unexpected(std::move(done.error()));
  return std::move(draft.events);
}

Result<std::vector<account::Event>> decide(const account::State& account, const AccountCommand& command,
                                           const Context& context) {
  Draft draft{{}, account, {}};
  auto done = std::visit([&](const auto& c) { return on(draft, c, context); }, command);
  if (!done) return std::unexpected(std::move(done.error()));
  return std::move(draft.events.account);
}

}  // namespace nodus::metering
