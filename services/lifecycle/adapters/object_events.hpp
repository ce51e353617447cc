// Events as people read them (`GET …/events`): what happened to an object, one row for equal ones, with a
// count. A use case adds them inside its Work; they are kept if the Work is. Each object keeps its latest
// 100.
#pragma once

#include <string>
#include <vector>

#include "libs/eventlog/event_log.hpp"
#include "services/lifecycle/domain/sandbox.hpp"

namespace nodus::lifecycle {

enum class EventType { kNormal, kWarning };

struct ObjectRef {
  ProjectId project;
  std::string kind = "Sandbox";
  std::string name;
  std::string uid;
};
ObjectRef ref_of(const Sandbox& sandbox);

// `reason` is CamelCase, at most 128 bytes; `message` is a sentence without secrets, cut at 1,024 bytes.
// Leave out what changes each time (instants, counters), so that equal ones are counted.
void add_event(eventlog::Unit& unit, const ObjectRef& object, EventType type, std::string reason,
               std::string message);

// The Events that follow from what was decided for a Sandbox.
void add_events_of(eventlog::Unit& unit, const Sandbox& after, const std::vector<SandboxEvent>& events);

}  // namespace nodus::lifecycle
