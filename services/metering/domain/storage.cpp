#include "services/metering/domain/storage.hpp"

#include <algorithm>

namespace nodus::metering {

namespace {

Owner owner_of(const SlotRef& slot) {
  return {slot.org, slot.project};
}

// Why a line of this rate cannot be paid for a second from at_s on, beside all that is live; kUnsaid: it can.
Waiver why_not(const Draft& draft, Rate rate, MoneySecond at_s) {
  const auto& account = draft.account;
  const Money free = account::balance(account) - account.pending - account.held_funded;
  if (free - account::accrued(account, at_s) < account.rate * 1 + rate * 1)
    return Waiver::kInsufficientCredits;
  const auto& spend = draft.budget;
  for (const auto& b : spend.budgets) {
    const Money left = b.spec.limit - spend.held_funded - budget::spent(spend, b, at_s);
    if (left < spend.rate * 1 + rate * 1) return Waiver::kBudgetExceeded;
  }
  return Waiver::kUnsaid;
}

void note_refusal(Draft& draft, const SlotRef& slot, Waiver cause, Money hold) {
  if (cause == Waiver::kBudgetExceeded)
    draft.emit(budget::RefusalNoted{slot.org, slot.project, hold});
  else
    draft.emit(account::RefusalNoted{slot.org, hold});
}

// Opens the next piece, paid or waived. A waived one is a refusal: money that comes is told of.
void open_piece(Draft& draft, charge::StorageOpened opened, const Context& context) {
  const SlotRef slot = opened.slot;
  const Rate rate = opened.rate;
  const MoneySecond from_s = opened.from_s;
  const Waiver waived = opened.waived;
  opened.era = draft.account.era;
  opened.budget_era = draft.budget.era;
  draft.emit(std::move(opened));
  if (waived != Waiver::kUnsaid) {
    note_refusal(draft, slot, waived, rate * context.hold.count());
    return;
  }
  draft.emit(account::AccrualStarted{slot.org, slot.uid, slot.start, rate, from_s, Money(), true});
  draft.emit(budget::SpendStarted{slot.org, slot.project, slot.uid, slot.start, Money(), rate, from_s,
                                  draft.account.era, true});
}

// The piece that goes on with what is stored now.
charge::StorageOpened next_piece(const Draft& draft, const charge::Stored& stored, MoneySecond from_s,
                                 Waiver waived) {
  const charge::RestorePoint& point = *draft.charge.restore_point;
  return {.slot = stored.slot,
          .sandbox_name = stored.sandbox_name,
          .size_bytes = point.size_bytes,
          .price_version = point.price_version,
          .rate = point.rate,
          .from_s = from_s,
          .waived = waived};
}

// Meters a paid piece up to to_s, or to where its money ended.
std::optional<MoneyEnd> end_paid(Draft& draft, MoneySecond to_s, const Context& context) {
  const charge::Stored stored = *draft.charge.stored;
  const SlotRef& slot = stored.slot;
  const Rate rate = draft.charge.restore_point->rate;
  const Standing stood = standing(draft, stored.era, stored.budget_era);
  const auto end = money_end(draft, {rate, stored.from_s}, stood);
  const MoneySecond paid_to_s = end ? std::clamp(end->at_s, stored.from_s, to_s) : to_s;
  const Money amount = rate * (paid_to_s - stored.from_s);
  draft.emit(
      charge::StorageMetered{slot, rate, stored.from_s, paid_to_s, amount, Waiver::kUnsaid, context.now});
  draft.emit(account::AccrualEnded{slot.org, slot.uid, slot.start, paid_to_s, amount, rate, stored.from_s,
                                   Money(), stood.account, stood.account_end_s.value_or(0), stored.era});
  draft.emit(budget::SpendEnded{.org = slot.org,
                                .project = slot.project,
                                .uid = slot.uid,
                                .start = slot.start,
                                .rate = rate,
                                .from_s = stored.from_s,
                                .paid_from_s = stored.from_s,
                                .paid_to_s = paid_to_s,
                                .amount = amount,
                                .line = stood.budget,
                                .flat_s = stood.budget_end_s.value_or(0),
                                .era = stored.budget_era});
  return end;
}

void end_waived(Draft& draft, MoneySecond to_s, const Context& context) {
  const charge::Stored stored = *draft.charge.stored;
  draft.emit(charge::StorageMetered{stored.slot, draft.charge.restore_point->rate, stored.from_s, to_s,
                                    Money(), stored.waived, context.now});
}

}  // namespace

void open_storage(Draft& draft, const CloseCharge& command, const std::string& sandbox_name, MoneySecond at_s,
                  const Context& context) {
  charge::StorageOpened opened{
      .slot = command.slot, .sandbox_name = sandbox_name, .price_version = {}, .from_s = at_s};
  if (command.saved_bytes) {
    if (!context.price) return;
    opened.size_bytes = *command.saved_bytes;
    opened.price_version = context.price->version;
    opened.rate = storage_rate_of(*command.saved_bytes, *context.price);
  } else if (const auto& point = draft.charge.restore_point) {
    opened.size_bytes = point->size_bytes;
    opened.price_version = point->price_version;
    opened.rate = point->rate;
  } else {
    return;
  }
  opened.waived = why_not(draft, opened.rate, at_s);
  open_piece(draft, std::move(opened), context);
}

void end_storage(Draft& draft, MoneySecond at_s, const Context& context) {
  if (!draft.charge.stored) return;
  const charge::Stored stored = *draft.charge.stored;
  const MoneySecond to_s = std::max(at_s, stored.from_s);
  if (stored.waived == Waiver::kUnsaid) {
    const auto end = end_paid(draft, to_s, context);
    if (!end || end->at_s >= to_s) return;
    auto rest = next_piece(draft, stored, std::max(end->at_s, stored.from_s), end->cause);
    draft.emit(std::move(rest));
  }
  end_waived(draft, to_s, context);
}

void drop_storage(Draft& draft, const SlotRef& slot, Instant at, const Context& context) {
  if (!draft.charge.stored) return;
  const MoneySecond at_s = to_money_second(at);
  settle(draft, owner_of(slot), at_s, Reach::kBefore, context.brake);
  end_storage(draft, at_s, context);
}

void judge_storage(Draft& draft, const JudgeStorage& command, const Context& context) {
  if (!draft.charge.stored || draft.charge.stored->slot.start != command.slot.start) return;
  const charge::Stored stored = *draft.charge.stored;
  const Owner owner = owner_of(stored.slot);
  settle(draft, owner, to_money_second(command.at), reach_of(command.at), context.brake);
  Waiver paused = Waiver::kUnsaid;
  if (stored.waived == Waiver::kUnsaid) {
    const Standing stands = standing(draft, stored.era, stored.budget_era);
    if (!stands.ended_s()) return;
    const auto end = end_paid(draft, std::max(to_money_second(command.at), *stands.ended_s()), context);
    paused = end ? end->cause : stands.cause();
    open_piece(draft, next_piece(draft, stored, draft.charge.stored_to_s, paused), context);
  }
  // It is paid from a second on that is still to come, so that nothing is counted twice.
  const MoneySecond now_s = std::max(to_money_second(context.now), draft.charge.stored->from_s);
  settle(draft, owner, now_s, Reach::kBefore, context.brake);
  const Rate rate = draft.charge.restore_point->rate;
  const Waiver still = why_not(draft, rate, now_s);
  if (still == Waiver::kUnsaid) {
    end_waived(draft, now_s, context);
    open_piece(draft, next_piece(draft, stored, now_s, Waiver::kUnsaid), context);
    return;
  }
  if (still != paused) note_refusal(draft, stored.slot, still, rate * context.hold.count());
}

}  // namespace nodus::metering
