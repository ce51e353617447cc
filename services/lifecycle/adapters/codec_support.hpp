// What the codecs share.
#pragma once

#include <optional>
#include <string>

#include "libs/base/clock.hpp"
#include "libs/eventlog/event_log.hpp"

namespace nodus::lifecycle::codec {

template <class M>
eventlog::Event event_of(const M& message) {
  return {std::string(message.GetDescriptor()->full_name()), message.SerializeAsString()};
}

template <class M>
Result<M> parse(const std::string& bytes) {
  M message;
  if (!message.ParseFromString(bytes))
    return fail(Code::kInternal, "UndecodableEvent",
                "A stored " + message.GetTypeName() + " does not parse.");
  return message;
}

inline int64_t micros_or_zero(const std::optional<Instant>& at) {
  return at ? to_micros(*at) : 0;
}
inline std::optional<Instant> instant_or_none(int64_t micros) {
  return micros == 0 ? std::nullopt : std::optional(from_micros(micros));
}

inline std::unexpected<Error> unknown_type(const std::string& type) {
  return fail(Code::kInternal, "UnknownEventType", "This release does not know the event type " + type + ".");
}

// Parses M and maps it with `map`, when `type` is M's.
template <class M, class Out, class Map>
bool decode_as(const std::string& type, const std::string& payload, Result<Out>& out, Map map) {
  if (type != M::descriptor()->full_name()) return false;
  auto message = parse<M>(payload);
  if (message)
    out = map(*message);
  else
    out = std::unexpected(std::move(message.error()));
  return true;
}

}  // namespace nodus::lifecycle::codec
