// What metering's use cases need from outside.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libs/eventlog/event_log.hpp"
#include "services/metering/domain/decide.hpp"

namespace nodus::metering {

struct ProjectKey {
  OrgId org;
  ProjectId project;
};

// Questions asked inside of a decision, in its transaction.
class Lookups {
 public:
  virtual ~Lookups() = default;
  virtual Result<std::optional<PriceVersion>> price_in_force(eventlog::Unit& unit, Instant at) = 0;
  // A credit that is posted already.
  virtual Result<std::optional<PostedCredit>> posted_credit(eventlog::Unit& unit, const OrgId& org,
                                                            const std::string& id) = 0;
  // What was paid back by refunds whose ids begin with `prefix`.
  virtual Result<Money> refunded(eventlog::Unit& unit, const OrgId& org, const std::string& prefix) = 0;
};

// Read models, written with the events they follow from.
class Projections {
 public:
  virtual ~Projections() = default;
  virtual void charge_changed(eventlog::Unit& unit, const SandboxUid& uid, const charge::State& before,
                              const charge::State& after, std::span<const charge::Event> events) = 0;
  // `due`: when to look at the account next.
  virtual void account_changed(eventlog::Unit& unit, const account::State& after,
                               std::span<const account::Event> events, std::optional<Instant> due) = 0;
  virtual void deadline_moved(eventlog::Unit& unit, const OrgId& org, std::optional<Instant> due) = 0;
  // `due`: when to look at the project next.
  virtual void budget_changed(eventlog::Unit& unit, const budget::State& before, const budget::State& after,
                              std::span<const budget::Event> events, std::optional<Instant> due,
                              Instant now) = 0;
  virtual void budget_deadline_moved(eventlog::Unit& unit, const ProjectKey& project,
                                     std::optional<Instant> due) = 0;
  // What is stored was judged: it is not due again.
  virtual void storage_judged(eventlog::Unit& unit, const SandboxUid& uid, const charge::State& after) = 0;
  // A cap that was due by `at` was judged: it is not due again.
  virtual void cap_judged(eventlog::Unit& unit, const SandboxUid& uid, Instant at) = 0;
};

struct Brake {  // of the platform: an operator suspended the stops for money
  bool on = false;
  std::string reason;
};

// Rows that deadlines are found by.
class DeadlineRows {
 public:
  virtual ~DeadlineRows() = default;
  virtual Result<std::vector<SlotRef>> due_caps(Instant now, int limit) = 0;
  virtual Result<std::vector<OrgId>> due_balances(Instant now, int limit) = 0;
  // Open starts of an organization, by uid, that are to be told of the end of its money: those that run
  // without a stop order, and those whose line ended with the balance and whose stream does not say where.
  virtual Result<std::vector<SlotRef>> unjudged(const OrgId& org, const SandboxUid& after, int limit) = 0;
  virtual Result<std::vector<ProjectKey>> due_budgets(Instant now, int limit) = 0;
  // Open starts of a project, by uid, whose line ended with a Budget: not told of it, or not stopping yet.
  virtual Result<std::vector<SlotRef>> over_budget(const ProjectKey& project, const SandboxUid& after,
                                                   int limit) = 0;
  // What is stored whose money may have ended, or have come.
  virtual Result<std::vector<SlotRef>> due_storage(int limit) = 0;
  virtual Result<Brake> brake() = 0;
  virtual Result<std::optional<Instant>> earliest() = 0;
};

}  // namespace nodus::metering
