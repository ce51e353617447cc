#include "nodus/lifecycle/v1/events.pb.h"
#include "nodus/lifecycle/v1/state.pb.h"
#include "services/lifecycle/adapters/codec.hpp"
#include "services/lifecycle/adapters/codec_support.hpp"

namespace nodus::lifecycle {

namespace pb = nodus::lifecycle::v1;
using namespace codec;

namespace {

void put(const ProcessAdmitted& e, pb::ProcessAdmitted* out) {
  out->set_uid(e.uid.str());
  out->set_sandbox_uid(e.sandbox.str());
  out->set_project(e.project.str());
  out->set_sandbox_name(e.sandbox_name);
  out->set_start(e.start);
  out->set_epoch(e.epoch);
  out->set_machine(e.machine);
  out->set_name(e.name);
  for (const auto& argument : e.command) out->add_command(argument);
  out->set_timeout_us(e.timeout.count());
  out->set_at_us(to_micros(e.at));
  out->set_tty(e.tty);
  out->set_stdin_open(e.stdin_open);
  out->set_working_dir(e.working_dir);
}

ProcessAdmitted admitted_of(const pb::ProcessAdmitted& m) {
  return {.uid = ProcessUid(m.uid()),
          .sandbox = SandboxUid(m.sandbox_uid()),
          .project = ProjectId(m.project()),
          .sandbox_name = m.sandbox_name(),
          .start = m.start(),
          .epoch = m.epoch(),
          .machine = m.machine(),
          .name = m.name(),
          .command = {m.command().begin(), m.command().end()},
          .timeout = Micros(m.timeout_us()),
          .at = from_micros(m.at_us()),
          .tty = m.tty(),
          .stdin_open = m.stdin_open(),
          .working_dir = m.working_dir()};
}

void put(const ProcessEnded& e, const ProcessUid& uid, pb::ProcessEnded* out) {
  out->set_uid(uid.str());
  out->set_reason(e.reason);
  out->set_exit_code(e.exit_code);
  out->set_message(e.message);
  out->set_started_at_us(micros_or_zero(e.started_at));
  out->set_ended_at_us(to_micros(e.ended_at));
  out->set_stdout_bytes(e.stdout_bytes);
  out->set_stderr_bytes(e.stderr_bytes);
  out->set_never_reached(e.never_reached);
}

ProcessEnded ended_of(const pb::ProcessEnded& m) {
  return {.reason = m.reason(),
          .exit_code = m.exit_code(),
          .message = m.message(),
          .started_at = instant_or_none(m.started_at_us()),
          .ended_at = from_micros(m.ended_at_us()),
          .stdout_bytes = m.stdout_bytes(),
          .stderr_bytes = m.stderr_bytes(),
          .never_reached = m.never_reached()};
}

}  // namespace

eventlog::Event ProcessCodec::encode(const ProcessEvent& event, const Process& after) {
  if (const auto* admitted = std::get_if<ProcessAdmitted>(&event)) {
    pb::ProcessAdmitted m;
    put(*admitted, &m);
    return event_of(m);
  }
  if (const auto* repeated = std::get_if<ProcessRepeated>(&event)) {
    pb::ProcessRepeated m;
    m.set_uid(repeated->uid.str());
    return event_of(m);
  }
  pb::ProcessEnded m;
  put(std::get<ProcessEnded>(event), after.admitted.uid, &m);
  return event_of(m);
}

Result<ProcessEvent> ProcessCodec::decode(const std::string& type, const std::string& payload) {
  Result<ProcessEvent> out = unknown_type(type);
  (void)(decode_as<pb::ProcessAdmitted>(type, payload, out, [](const auto& m) { return admitted_of(m); }) ||
         decode_as<pb::ProcessEnded>(type, payload, out, [](const auto& m) { return ended_of(m); }) ||
         decode_as<pb::ProcessRepeated>(type, payload, out,
                                        [](const auto& m) { return ProcessRepeated{ProcessUid(m.uid())}; }));
  return out;
}

std::string ProcessCodec::encode_state(const Process& p) {
  pb::ProcessState m;
  put(p.admitted, m.mutable_admitted());
  if (p.ended) put(*p.ended, p.admitted.uid, m.mutable_ended());
  m.set_repeated(p.repeated);
  return m.SerializeAsString();
}

Result<Process> ProcessCodec::decode_state(const std::string& bytes) {
  auto m = parse<pb::ProcessState>(bytes);
  if (!m) return std::unexpected(std::move(m.error()));
  Process p{admitted_of(m->admitted()), std::nullopt, m->repeated()};
  if (m->has_ended()) p.ended = ended_of(m->ended());
  return p;
}

eventlog::Event NameCodec::encode(const NameEvent& event, const Name&) {
  pb::NameTaken m;
  m.set_uid(std::get<NameTaken>(event).uid.str());
  return event_of(m);
}

Result<NameEvent> NameCodec::decode(const std::string& type, const std::string& payload) {
  Result<NameEvent> out = unknown_type(type);
  decode_as<pb::NameTaken>(type, payload, out, [](const auto& m) { return NameTaken{SandboxUid(m.uid())}; });
  return out;
}

std::string NameCodec::encode_state(const Name& name) {
  pb::NameState m;
  m.set_holder(name.holder.str());
  return m.SerializeAsString();
}

Result<Name> NameCodec::decode_state(const std::string& bytes) {
  auto m = parse<pb::NameState>(bytes);
  if (!m) return std::unexpected(std::move(m.error()));
  return Name{SandboxUid(m->holder())};
}

}  // namespace nodus::lifecycle
