// Field by field, shared by the files of the codec. A reader remembers the first fault, so that a message is
// read in one go and judged once.
#pragma once

#include <optional>
#include <string>

#include "libs/base/error.hpp"
#include "libs/money/money.hpp"
#include "nodus/scheduler/v1/events.pb.h"
#include "services/metering/domain/budget.hpp"
#include "services/metering/domain/lines.hpp"
#include "services/metering/domain/slot.hpp"

namespace nodus::metering::codec {

class FieldReader {
 public:
  Money money(const std::string& text) {
    auto parsed = Money::parse(text);
    if (!parsed && !fault_) fault_ = parsed.error();
    return parsed.value_or(Money());
  }
  Rate rate(const std::string& text) { return Rate::from_pico_per_second(money(text).pico()); }
  std::optional<Money> optional_money(const std::string& text) {
    if (text.empty()) return std::nullopt;
    return money(text);
  }
  budget::Period period(const std::string& text) {
    const auto known = budget::period_of(text);
    if (!known) fault("A Budget of an unknown period.");
    return known.value_or(budget::Period::kMonthly);
  }
  SlotRef slot(const nodus::scheduler::v1::SlotRef& from);
  Waiver cause(const std::string& text);
  void fault(std::string message);

  template <class T>
  Result<T> finish(T value) {
    if (fault_) return std::unexpected(*fault_);
    return value;
  }

 private:
  std::optional<Error> fault_;
};

Times to_times(const nodus::scheduler::v1::Times& from);
void put(const SlotRef& from, nodus::scheduler::v1::SlotRef* to);
void put(const Times& from, nodus::scheduler::v1::Times* to);

template <class Message>
Result<Message> parse(const std::string& payload) {
  Message message;
  if (!message.ParseFromString(payload))
    return fail(Code::kInvalid, "MessageMalformed", Message::descriptor()->full_name() + " cannot be read.");
  return message;
}

}  // namespace nodus::metering::codec
