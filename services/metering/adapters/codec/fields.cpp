#include "services/metering/adapters/codec/fields.hpp"

namespace nodus::metering::codec {

void FieldReader::fault(std::string message) {
  if (!fault_) fault_ = Error{Code::kInvalid, "MessageMalformed", std::move(message)};
}

SlotRef FieldReader::slot(const nodus::scheduler::v1::SlotRef& from) {
  if (from.sandbox_uid().empty() || from.org().empty() || from.start() <= 0)
    fault("A slot needs its Sandbox, start and organization.");
  return {SandboxUid(from.sandbox_uid()), from.start(), from.epoch(), OrgId(from.org()),
          ProjectId(from.project())};
}

Waiver FieldReader::cause(const std::string& text) {
  const auto known = waiver_of(text);
  if (!known) fault("A line that is waived for an unknown reason.");
  return known.value_or(Waiver::kUnsaid);
}

Times to_times(const nodus::scheduler::v1::Times& from) {
  const auto known = [](int64_t micros) -> std::optional<Instant> {
    if (micros <= 0) return std::nullopt;
    return from_micros(micros);
  };
  return {known(from.reserved_at_us()), known(from.started_at_us()), known(from.stopping_at_us()),
          known(from.released_at_us())};
}

void put(const SlotRef& from, nodus::scheduler::v1::SlotRef* to) {
  to->set_sandbox_uid(from.uid.str());
  to->set_start(from.start);
  to->set_epoch(from.epoch);
  to->set_org(from.org.str());
  to->set_project(from.project.str());
}

void put(const Times& from, nodus::scheduler::v1::Times* to) {
  if (from.reserved) to->set_reserved_at_us(to_micros(*from.reserved));
  if (from.started) to->set_started_at_us(to_micros(*from.started));
  if (from.stopping) to->set_stopping_at_us(to_micros(*from.stopping));
  if (from.released) to->set_released_at_us(to_micros(*from.released));
}

}  // namespace nodus::metering::codec
