// The use cases: each command as a Work over charge/<uid>, budget/<project> and account/<org>.
#pragma once

#include <atomic>

#include "libs/base/clock.hpp"
#include "services/metering/app/ports.hpp"

namespace nodus::metering {

struct Durations {
  Seconds hold{75};          // what a start must be able to pay: 60 s and the stop reserve
  Seconds stop_reserve{15};  // how long before the end of the balance stops are ordered
};

// Thread-safe. The Works refer to it, so it lives longer than they do.
class Works {
 public:
  Works(const Clock& clock, Durations durations, Lookups& lookups, Projections& projections)
      : clock_(clock), durations_(durations), lookups_(lookups), projections_(projections) {}

  eventlog::Work on_start(Command command);
  eventlog::Work on_account(AccountCommand command);
  // `keeps`: false decides and checks all, and changes nothing.
  eventlog::Work on_budget(BudgetCommand command, bool keeps = true);
  // The account was looked at as of `seen` (its version), by what is known up to `at`: if nothing changed
  // since, its deadline moves on.
  eventlog::Work account_judged(const OrgId& org, int64_t seen, Instant at);

  // While it is on, no money ends and no stop is ordered. The thread of the deadlines keeps it as the row
  // says.
  void set_brake(bool on) { brake_.store(on); }
  eventlog::Work budget_judged(const ProjectKey& project, int64_t seen, Instant at);

 private:
  Result<std::string> decide_start(eventlog::Unit& unit, const Command& command);
  Result<std::string> decide_account(eventlog::Unit& unit, AccountCommand command);
  Result<std::string> decide_budget(eventlog::Unit& unit, const BudgetCommand& command, bool keeps);
  void append(eventlog::Unit& unit, const OrgId& org, const account::State& before,
              const std::vector<account::Event>& events, Instant now);
  void append(eventlog::Unit& unit, const ProjectKey& project, const budget::State& before,
              const std::vector<budget::Event>& events, Instant now);
  // When to look at an account that changed: stops that may be due already are looked for at once, and
  // account_judged() moves the deadline on.
  std::optional<Instant> first_look(const account::State& account, Instant now) const;
  std::optional<Instant> next_look(const account::State& account, Instant ends_after,
                                   Instant expires_after) const;
  static std::optional<Instant> first_look(const budget::State& budget, Instant now);
  Context context(Instant now) const {
    return {now, durations_.hold, durations_.stop_reserve, std::nullopt, brake_.load()};
  }

  std::atomic<bool> brake_{false};
  const Clock& clock_;
  const Durations durations_;
  Lookups& lookups_;
  Projections& projections_;
};

}  // namespace nodus::metering
