// Protobuf ⇄ domain. Unknown event types and values that cannot be read are errors (the message is parked);
// unknown fields are ignored.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "libs/base/error.hpp"
#include "services/metering/domain/decide.hpp"

namespace nodus::metering::codec {

// An event of metering's log: its Protobuf full name and the serialised message.
struct Encoded {
  std::string type;
  std::string payload;
};

Encoded encode(const charge::Event& event);
Encoded encode(const account::Event& event);
Encoded encode(const budget::Event& event);
Result<charge::Event> decode_charge(std::string_view type, const std::string& payload);
Result<account::Event> decode_account(std::string_view type, const std::string& payload);
Result<budget::Event> decode_budget(std::string_view type, const std::string& payload);

std::string encode_state(const charge::State& state);
std::string encode_state(const account::State& state);
std::string encode_state(const budget::State& state);
Result<charge::State> decode_charge_state(const std::string& bytes);
Result<account::State> decode_account_state(const std::string& bytes);
Result<budget::State> decode_budget_state(const std::string& bytes);

// What an event of the scheduler's log commands; nullopt: it does not concern money (machines, plans).
Result<std::optional<Command>> command_of(std::string_view type, const std::string& payload);
// The labels of an offer's Sandbox; of anything else: none.
std::map<std::string, std::string> labels_of(std::string_view type, const std::string& payload);

}  // namespace nodus::metering::codec
