// The name of a Sandbox in its project, stream name/<project>/<name>: which Sandbox had it last. A thousand
// concurrent creates of one name meet at this head, and one of them gets it. Whether that Sandbox still lives
// is in its own stream, so nothing has to free a name. Pure.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "libs/base/error.hpp"
#include "libs/base/ids.hpp"

namespace nodus::lifecycle {

struct NameTaken {
  SandboxUid uid;
};
using NameEvent = std::variant<NameTaken>;

struct Name {
  SandboxUid holder;  // empty: never taken
};

struct TakeName {
  SandboxUid uid;
  SandboxUid expected_holder;  // as the caller saw it, and that Sandbox is gone
};
using NameCommand = std::variant<TakeName>;

struct NameContext {};

struct NameAggregate {
  using State = Name;
  using Event = NameEvent;
  using Command = NameCommand;
  using Context = NameContext;
  static constexpr int kStateVersion = 1;

  // Conflict/NameMoved: somebody else took it meanwhile; look again.
  static Result<std::vector<Event>> decide(const State& name, const Command& command, const Context&) {
    const auto& take = std::get<TakeName>(command);
    if (name.holder != take.expected_holder)
      return fail(Code::kConflict, "NameMoved", "The name was taken by another request.");
    return std::vector<Event>{NameTaken{take.uid}};
  }
  static void evolve(State& name, const Event& event) { name.holder = std::get<NameTaken>(event).uid; }
};

}  // namespace nodus::lifecycle
