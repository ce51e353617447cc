// The three kinds of streams of metering's log, as the event log drives them.
#pragma once

#include <string>

#include "libs/eventlog/aggregate.hpp"
#include "services/metering/adapters/codec/codec.hpp"

namespace nodus::metering {

inline std::string charge_stream(const SandboxUid& uid) {
  return "charge/" + uid.str();
}
inline std::string account_stream(const OrgId& org) {
  return "account/" + org.str();
}

inline std::string budget_stream(const ProjectId& project) {
  return "budget/" + project.str();
}

struct Charges {  // the aggregate and its codec
  using State = charge::State;
  using Event = charge::Event;
  static constexpr int kStateVersion = charge::kStateVersion;
  static void evolve(State& state, const Event& event) { charge::evolve(state, event); }
  static Result<Event> decode(const std::string& type, const std::string& payload) {
    return codec::decode_charge(type, payload);
  }
  static Result<State> decode_state(const std::string& bytes) { return codec::decode_charge_state(bytes); }
};

struct Accounts {
  using State = account::State;
  using Event = account::Event;
  static constexpr int kStateVersion = account::kStateVersion;
  static void evolve(State& state, const Event& event) { account::evolve(state, event); }
  static Result<Event> decode(const std::string& type, const std::string& payload) {
    return codec::decode_account(type, payload);
  }
  static Result<State> decode_state(const std::string& bytes) { return codec::decode_account_state(bytes); }
};

struct Budgets {
  using State = budget::State;
  using Event = budget::Event;
  static constexpr int kStateVersion = budget::kStateVersion;
  static void evolve(State& state, const Event& event) { budget::evolve(state, event); }
  static Result<Event> decode(const std::string& type, const std::string& payload) {
    return codec::decode_budget(type, payload);
  }
  static Result<State> decode_state(const std::string& bytes) { return codec::decode_budget_state(bytes); }
};

}  // namespace nodus::metering
