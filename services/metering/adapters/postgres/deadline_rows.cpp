#include "services/metering/adapters/postgres/deadline_rows.hpp"

#include "services/metering/adapters/postgres/rows.hpp"

namespace nodus::metering {

namespace {

std::vector<SlotRef> slots_of(const pqxx::result& rows) {
  std::vector<SlotRef> slots;
  for (const auto& row : rows)
    slots.push_back({SandboxUid(row[0].c_str()), row[1].as<int64_t>(), 0, OrgId(row[2].c_str()),
                     ProjectId(row[3].c_str())});
  return slots;
}

}  // namespace

Result<std::vector<SlotRef>> PostgresDeadlineRows::due_caps(Instant now, int limit) {
  const auto now_s = std::chrono::floor<Seconds>(now).time_since_epoch().count();
  return pool_.with_tx([&](pg::Tx& tx) -> Result<std::vector<SlotRef>> {
    return slots_of(
        tx.exec_params("SELECT sandbox_uid, start, org, project FROM starts WHERE cap_due_s <= $1"
                       " AND open ORDER BY cap_due_s LIMIT $2",
                       now_s, limit));
  });
}

Result<std::vector<OrgId>> PostgresDeadlineRows::due_balances(Instant now, int limit) {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<std::vector<OrgId>> {
    std::vector<OrgId> orgs;
    for (const auto& row :
         tx.exec_params("SELECT org FROM balance_deadlines WHERE due_us <= $1 ORDER BY due_us LIMIT $2",
                        to_micros(now), limit))
      orgs.emplace_back(row[0].c_str());
    return orgs;
  });
}

Result<std::vector<SlotRef>> PostgresDeadlineRows::unjudged(const OrgId& org, const SandboxUid& after,
                                                            int limit) {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<std::vector<SlotRef>> {
    return slots_of(
        tx.exec_params("SELECT s.sandbox_uid, s.start, s.org, s.project FROM starts s"
                       " JOIN accounts a ON a.org = s.org WHERE s.org = $1 AND s.open AND s.sandbox_uid > $2"
                       " AND ((NOT s.stop_ordered AND s.stopping_us IS NULL)"
                       " OR (s.era < a.era AND NOT s.capped AND s.paid_until_s IS NULL))"
                       " ORDER BY s.sandbox_uid LIMIT $3",
                       org.str(), after.str(), limit));
  });
}

Result<std::vector<ProjectKey>> PostgresDeadlineRows::due_budgets(Instant now, int limit) {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<std::vector<ProjectKey>> {
    std::vector<ProjectKey> projects;
    for (const auto& row : tx.exec_params(
             "SELECT org, project FROM budget_deadlines WHERE due_us <= $1 ORDER BY due_us LIMIT $2",
             to_micros(now), limit))
      projects.push_back({OrgId(row[0].c_str()), ProjectId(row[1].c_str())});
    return projects;
  });
}

Result<std::vector<SlotRef>> PostgresDeadlineRows::over_budget(const ProjectKey& project,
                                                               const SandboxUid& after, int limit) {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<std::vector<SlotRef>> {
    return slots_of(
        tx.exec_params("SELECT s.sandbox_uid, s.start, s.org, s.project FROM starts s"
                       " JOIN project_spend p ON p.project = s.project WHERE s.project = $1 AND s.open AND "
                       "s.sandbox_uid > $2"
                       " AND s.budgeted AND s.budget_era < p.era AND NOT s.capped"
                       " AND (s.paid_until_s IS NULL OR (NOT s.stop_ordered AND s.stopping_us IS NULL))"
                       " ORDER BY s.sandbox_uid LIMIT $3",
                       project.project.str(), after.str(), limit));
  });
}

Result<std::vector<SlotRef>> PostgresDeadlineRows::due_storage(int limit) {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<std::vector<SlotRef>> {
    return slots_of(
        tx.exec_params("SELECT sandbox_uid, start, org, project FROM stored WHERE due"
                       " ORDER BY org, sandbox_uid LIMIT $1",
                       limit));
  });
}

Result<Brake> PostgresDeadlineRows::brake() {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<Brake> {
    const auto rows = tx.exec("SELECT engaged, reason FROM brake_changes ORDER BY id DESC LIMIT 1");
    if (rows.empty()) return Brake();
    return Brake{rows[0][0].as<bool>(), rows[0][1].c_str()};
  });
}

Result<std::optional<Instant>> PostgresDeadlineRows::earliest() {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<std::optional<Instant>> {
    const auto row = tx.exec1(
        "SELECT least((SELECT min(due_us) FROM balance_deadlines), (SELECT 0::bigint FROM stored WHERE due "
        "LIMIT 1),"
        " (SELECT min(due_us) FROM budget_deadlines),"
        " (SELECT min(cap_due_s) * 1000000 FROM starts WHERE cap_due_s IS NOT NULL AND open))");
    return instant_of(row[0]);
  });
}

}  // namespace nodus::metering
