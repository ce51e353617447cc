#include "services/metering/domain/charge.hpp"

#include <algorithm>

#include "libs/base/check.hpp"

namespace nodus::metering::charge {

namespace {

Start& current(State& state, const SlotRef& slot) {
  CHECK(state.current && state.current->slot.start == slot.start, "start {} is not the current one",
        slot.start);
  return *state.current;
}

void end(State& state, Outcome outcome) {
  state.current.reset();
  state.last_outcome = outcome;
}

void on(State& state, const StartFunded& e) {
  state.current = Start{.slot = e.slot,
                        .sandbox_name = e.sandbox_name,
                        .rate = e.rate,
                        .hold = e.hold,
                        .max_cost = e.max_cost,
                        .recovery = e.recovery,
                        .budgeted = e.budgeted};
  state.last_start = e.slot.start;
  state.last_outcome = Outcome::kNone;
}

void on(State& state, const StartRefused& e) {
  state.last_start = e.slot.start;
  state.last_outcome = Outcome::kRefused;
}

void on(State& state, const OfferReleased& e) {
  current(state, e.slot);
  end(state, Outcome::kLapsed);
}

void on(State& state, const ChargeOpened& e) {
  Start& start = current(state, e.slot);
  start.slot = e.slot;
  start.phase = Phase::kOpen;
  start.times.reserved = e.reserved_at;
  start.from_s = e.from_s;
  start.cap_s = e.cap_s;
  start.era = e.era;
  start.budget_era = e.budget_era;
}

void on(State& state, const InstantsNoted& e) {
  Start& start = current(state, e.slot);
  start.times = merge(start.times, e.times);
}

void on(State& state, const CapReached& e) {
  current(state, e.slot).capped = true;
}

void on(State& state, const CapRaised& e) {
  Start& start = current(state, e.slot);
  start.max_cost = e.max_cost;
  start.cap_s = e.cap_s;
}

void on(State& state, const PaidUntil& e) {
  current(state, e.slot).paid_until_s = e.at_s;
}

void on(State& state, const StopOrdered& e) {
  current(state, e.slot).stop_ordered = true;
}

void on(State& state, const StopDeclined& e) {
  Start& start = current(state, e.slot);
  start.times.stopping.reset();
  start.declined = e.stopping;
  start.stop_ordered = false;  // the order may have met the stop that was declined, and been dropped for it
}

void on(State& state, const ChargeClosed& e) {
  current(state, e.slot);
  state.closed_total += e.amount;
  state.last_released_s = e.to_s;
  state.last_rate = e.rate;
  end(state, Outcome::kClosed);
}

void on(State& state, const StorageOpened& e) {
  state.restore_point = RestorePoint{e.size_bytes, e.price_version, e.rate};
  state.stored = Stored{e.slot, e.sandbox_name, e.from_s, e.era, e.budget_era, e.waived};
}

void on(State& state, const StorageMetered& e) {
  CHECK(state.stored.has_value(), "nothing of start {} is stored", e.slot.start);
  state.stored.reset();
  state.stored_to_s = e.to_s;
}

}  // namespace

std::optional<MoneySecond> pays_from(const Start& start) {
  if (!start.recovery) return start.from_s;
  if (!start.times.started) return std::nullopt;
  return std::max(start.from_s, to_money_second(*start.times.started));
}

void evolve(State& state, const Event& event) {
  std::visit([&](const auto& e) { on(state, e); }, event);
}

}  // namespace nodus::metering::charge
