// The state of a Sandbox on its head row.
#include "nodus/lifecycle/v1/state.pb.h"
#include "services/lifecycle/adapters/codec.hpp"
#include "services/lifecycle/adapters/codec_support.hpp"
#include "services/lifecycle/adapters/sandbox_values.hpp"
#include "services/lifecycle/domain/status.hpp"

namespace nodus::lifecycle {

using namespace codec;

std::string SandboxCodec::encode_state(const Sandbox& s) {
  pb::SandboxState m;
  put(SandboxCreated{s.uid, s.org, s.project, s.name, s.spec, s.image_digest, s.labels, s.annotations,
                     s.created_at},
      m.mutable_created());
  m.set_phase(static_cast<int>(s.phase));
  m.set_phase_since_us(to_micros(s.phase_since));
  m.set_wants_running(s.wants_running);
  m.set_start(s.start);
  m.set_start_open(s.start_open);
  m.set_epoch(s.epoch);
  m.set_machine(s.machine);
  m.set_data_path(s.data_path);
  m.set_runtime(s.runtime);
  m.set_reserved_at_us(micros_or_zero(s.reserved_at));
  m.set_started_at_us(micros_or_zero(s.started_at));
  if (s.rate) m.set_rate_usd_per_s(s.rate->to_decimal());
  if (s.refusal) put(*s.refusal, m.mutable_refusal());
  m.set_stop_reason(static_cast<int>(s.stop_reason));
  m.set_wake_pending(s.wake_pending);
  m.set_failure(s.failure);
  m.set_message(s.message);
  if (s.restore_point) put(*s.restore_point, m.mutable_restore_point());
  m.set_posted_usd(s.posted.to_decimal());
  m.set_last_activity_us(to_micros(s.last_activity));
  m.set_processes(s.processes);
  m.set_unposted_usd(s.unposted.to_decimal());
  m.set_charged_start(s.charged_start);
  m.set_deferred_until_us(micros_or_zero(s.deferred_until));
  m.set_deferrals(s.deferrals);
  m.set_paid_until_s(s.paid_until_s.value_or(0));
  m.set_warned(s.warned);
  m.set_machine_busy(s.machine_busy);
  m.set_awake_because(s.awake_because);
  m.set_delete_reason(s.delete_reason);
  m.set_lost_epoch(s.lost_epoch);
  for (const auto& mark : s.marks) {
    auto* out = m.add_marks();
    out->set_status(static_cast<int>(mark.status));
    out->set_since_us(to_micros(mark.since));
  }
  return m.SerializeAsString();
}

Result<Sandbox> SandboxCodec::decode_state(const std::string& bytes) {
  auto m = parse<pb::SandboxState>(bytes);
  if (!m) return std::unexpected(std::move(m.error()));
  const auto c = created_of(m->created());
  Sandbox s;
  s.uid = c.uid, s.org = c.org, s.project = c.project, s.name = c.name, s.spec = c.spec;
  s.image_digest = c.image_digest, s.labels = c.labels, s.annotations = c.annotations, s.created_at = c.at;
  s.phase = static_cast<Phase>(m->phase());
  s.phase_since = from_micros(m->phase_since_us());
  s.wants_running = m->wants_running();
  s.start = m->start();
  s.start_open = m->start_open();
  s.epoch = m->epoch();
  s.machine = m->machine();
  s.data_path = m->data_path();
  s.runtime = m->runtime();
  s.reserved_at = instant_or_none(m->reserved_at_us());
  s.started_at = instant_or_none(m->started_at_us());
  s.rate = rate_of(m->rate_usd_per_s());
  if (m->has_refusal()) s.refusal = refusal_of(m->refusal());
  s.stop_reason = static_cast<StopReason>(m->stop_reason());
  s.wake_pending = m->wake_pending();
  s.failure = m->failure();
  s.message = m->message();
  if (m->has_restore_point()) s.restore_point = restore_point_of(m->restore_point());
  s.posted = money_of(m->posted_usd());
  s.last_activity = from_micros(m->last_activity_us());
  s.processes = m->processes();
  s.unposted = money_of(m->unposted_usd());
  s.charged_start = m->charged_start();
  s.deferred_until = instant_or_none(m->deferred_until_us());
  s.deferrals = m->deferrals();
  if (m->paid_until_s() != 0) s.paid_until_s = m->paid_until_s();
  s.warned = m->warned();
  s.machine_busy = m->machine_busy();
  s.awake_because = m->awake_because();
  s.delete_reason = m->delete_reason();
  s.lost_epoch = m->lost_epoch();
  // Version 1 had no marks: the conditions of such a state count from when its phase began.
  if (m->marks_size() == 0) mark_conditions(s, s.phase_since);
  for (int i = 0; i < m->marks_size() && i < static_cast<int>(kConditionTypes); ++i)
    s.marks[static_cast<size_t>(i)] = {static_cast<ConditionStatus>(m->marks(i).status()),
                                       from_micros(m->marks(i).since_us())};
  return s;
}

}  // namespace nodus::lifecycle
