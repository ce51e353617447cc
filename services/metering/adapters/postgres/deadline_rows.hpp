// The rows that money deadlines are found by.
#pragma once

#include "libs/pg/connection.hpp"
#include "services/metering/app/ports.hpp"

namespace nodus::metering {

class PostgresDeadlineRows final : public DeadlineRows {
 public:
  explicit PostgresDeadlineRows(pg::Pool& pool) : pool_(pool) {}
  Result<std::vector<SlotRef>> due_caps(Instant now, int limit) override;
  Result<std::vector<OrgId>> due_balances(Instant now, int limit) override;
  Result<std::vector<SlotRef>> unjudged(const OrgId& org, const SandboxUid& after, int limit) override;
  Result<std::vector<ProjectKey>> due_budgets(Instant now, int limit) override;
  Result<std::vector<SlotRef>> over_budget(const ProjectKey& project, const SandboxUid& after,
                                           int limit) override;
  Result<std::vector<SlotRef>> due_storage(int limit) override;
  Result<Brake> brake() override;
  Result<std::optional<Instant>> earliest() override;

 private:
  pg::Pool& pool_;
};

}  // namespace nodus::metering
