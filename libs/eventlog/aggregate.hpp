// The one pattern: an aggregate is a pure core that the log drives.
//
//   struct SandboxAggregate {
//     using State = …; using Event = std::variant<…>; using Command = std::variant<…>; using Context = …;
//     static constexpr int kStateVersion = 1;
//     static Result<std::vector<Event>> decide(const State&, const Command&, const Context&);   // pure; a
//     repeat: none static void evolve(State&, const Event&); // pure
//   };
//   struct SandboxCodec { static eventlog::Event encode(const Event&); static Result<Event> decode(type,
//   payload);
//                         static std::string encode_state(const State&); static Result<State>
//                         decode_state(string); };
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libs/eventlog/event_log.hpp"

namespace nodus::eventlog {

template <class Aggregate, class Codec>
Result<typename Aggregate::State> load(Unit& unit, const std::string& stream) {
  const Head& head = unit.head(stream);
  if (head.version == 0) return typename Aggregate::State{};
  if (head.state_version > Aggregate::kStateVersion)
    return fail(Code::kUnavailable, "StateTooNew",
                "Stream " + stream + " was written by a newer release; this replica does not handle it.");
  return Codec::decode_state(head.state);
}

template <class Aggregate>
struct Step {
  typename Aggregate::State before;
  typename Aggregate::State after;
  std::vector<typename Aggregate::Event> events;
};

// Loads, decides, evolves and appends. No events: nothing is written.
template <class Aggregate, class Codec>
Result<Step<Aggregate>> apply(Unit& unit, const std::string& stream,
                              const typename Aggregate::Command& command,
                              const typename Aggregate::Context& context) {
  auto state = load<Aggregate, Codec>(unit, stream);
  if (!state) return std::unexpected(std::move(state.error()));
  auto events = Aggregate::decide(*state, command, context);
  if (!events) return std::unexpected(std::move(events.error()));
  Step<Aggregate> step{*state, std::move(*state), std::move(*events)};
  std::vector<Event> encoded;
  for (const auto& event : step.events) {
    Aggregate::evolve(step.after, event);
    // An event that repeats facts of its stream (its uid, its spec) is encoded with the state after it.
    if constexpr (requires { Codec::encode(event, step.after); })
      encoded.push_back(Codec::encode(event, step.after));
    else
      encoded.push_back(Codec::encode(event));
  }
  if (!encoded.empty())
    unit.append(stream, std::move(encoded), Codec::encode_state(step.after), Aggregate::kStateVersion);
  return step;
}

// Replays a stream from its events; a rebuild must give the same state as the head row.
template <class Aggregate, class Codec>
Result<typename Aggregate::State> rebuild(EventLog& log, const std::string& stream) {
  typename Aggregate::State state;
  for (int64_t version = 0;;) {
    auto page = log.read_stream(stream, version, 500);
    if (!page) return std::unexpected(std::move(page.error()));
    if (page->empty()) return state;
    for (const auto& recorded : *page) {
      auto event = Codec::decode(recorded.type, recorded.payload);
      if (!event) return std::unexpected(std::move(event.error()));
      Aggregate::evolve(state, *event);
      version = recorded.version;
    }
  }
}

}  // namespace nodus::eventlog
