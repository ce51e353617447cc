// Protobuf ⇄ domain, for lifecycle's events and states. An unknown event type is an error: never skipped.
#pragma once

#include <string>

#include "libs/eventlog/event_log.hpp"
#include "services/lifecycle/domain/name.hpp"
#include "services/lifecycle/domain/process.hpp"
#include "services/lifecycle/domain/sandbox.hpp"

namespace nodus::lifecycle {

struct SandboxCodec {
  // StartRequested repeats the spec, so that the scheduler needs nothing else: hence the state.
  static eventlog::Event encode(const SandboxEvent& event, const Sandbox& after);
  static Result<SandboxEvent> decode(const std::string& type, const std::string& payload);
  static std::string encode_state(const Sandbox& state);
  static Result<Sandbox> decode_state(const std::string& bytes);
};

struct ProcessCodec {
  static eventlog::Event encode(const ProcessEvent& event, const Process& after);
  static Result<ProcessEvent> decode(const std::string& type, const std::string& payload);
  static std::string encode_state(const Process& state);
  static Result<Process> decode_state(const std::string& bytes);
};

struct NameCodec {
  static eventlog::Event encode(const NameEvent& event, const Name& after);
  static Result<NameEvent> decode(const std::string& type, const std::string& payload);
  static std::string encode_state(const Name& state);
  static Result<Name> decode_state(const std::string& bytes);
};

}  // namespace nodus::lifecycle
