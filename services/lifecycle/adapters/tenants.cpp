// Organizations and projects. Keys: tenant_keys.cpp.
#include "services/lifecycle/adapters/tenants.hpp"

#include <fmt/core.h>

#include "libs/base/random.hpp"
#include "services/lifecycle/domain/project.hpp"

namespace nodus::lifecycle {

namespace {

constexpr int64_t kMaxProjects = 1'000;

constexpr const char* kOrganization =
    "SELECT o.org, o.display_name, o.created_us, o.suspended_us, o.suspended_reason, o.quota_sandboxes, "
    "o.quota_cpu_milli, o.quota_stored_bytes, o.quota_creates_per_minute, "
    "coalesce(u.sandboxes, 0) + coalesce(c.sandboxes, 0), coalesce(u.cpu_milli, 0) + coalesce(c.cpu_milli, "
    "0), "
    "coalesce(u.stored_bytes, 0) + coalesce(c.stored_bytes, 0) "
    "FROM organizations o LEFT JOIN usage_sums u ON u.org = o.org LEFT JOIN LATERAL "
    "(SELECT sum(sandboxes)::bigint AS sandboxes, sum(cpu_milli)::bigint AS cpu_milli, "
    "sum(stored_bytes)::bigint AS stored_bytes FROM usage_changes WHERE org = o.org) c ON true ";

std::optional<int64_t> maybe(const pqxx::field& field) {
  return field.is_null() ? std::nullopt : std::optional(field.as<int64_t>());
}

Organization organization_of(const pqxx::row& row) {
  Organization out;
  out.org = OrgId(row[0].as<std::string>());
  out.display_name = row[1].as<std::string>();
  out.created_at = from_micros(row[2].as<int64_t>());
  if (!row[3].is_null()) out.suspended_at = from_micros(row[3].as<int64_t>());
  out.suspended_reason = row[4].as<std::string>();
  out.quotas = {maybe(row[5]), maybe(row[6]), maybe(row[7]), maybe(row[8])};
  out.usage = {row[9].as<int64_t>(), row[10].as<int64_t>(), row[11].as<int64_t>()};
  return out;
}

Result<Organization> find_organization(pg::Tx& tx, const OrgId& org) {
  const auto rows = tx.exec_params(std::string(kOrganization) + "WHERE o.org = $1", org.str());
  if (rows.empty())
    return fail(Code::kNotFound, "NotFound", "There is no organization named \"" + org.str() + "\".");
  return organization_of(rows[0]);
}

Result<Project> find_project(pg::Tx& tx, const OrgId& org, const std::string& name, bool lock) {
  const auto rows = tx.exec_params(std::string("SELECT id, name, created_us FROM projects "
                                               "WHERE org = $1 AND name = $2") +
                                       (lock ? " FOR UPDATE" : ""),
                                   org.str(), name);
  if (rows.empty()) return fail(Code::kNotFound, "NotFound", "There is no project named \"" + name + "\".");
  return Project{ProjectId(rows[0][0].as<std::string>()), rows[0][1].as<std::string>(),
                 from_micros(rows[0][2].as<int64_t>())};
}

}  // namespace

Quotas effective(const QuotaRow& row, const Quotas& defaults) {
  return {row.sandboxes.value_or(defaults.sandboxes), row.cpu_milli.value_or(defaults.cpu_milli),
          row.stored_bytes.value_or(defaults.stored_bytes),
          row.creates_per_minute.value_or(defaults.creates_per_minute)};
}

Result<Organization> Tenants::create_organization(const OrgId& org, const std::string& display_name) {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<Organization> {
    const auto made = tx.exec_params(
        "INSERT INTO organizations (org, display_name, created_us) VALUES ($1, $2, $3) ON CONFLICT DO "
        "NOTHING",
        org.str(), display_name, to_micros(clock_.now()));
    if (made.affected_rows() == 0)
      return fail(Code::kConflict, "AlreadyExists", "Organization \"" + org.str() + "\" exists.");
    return find_organization(tx, org);
  });
}

Result<std::vector<Organization>> Tenants::organizations(const NamePage& page) {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<std::vector<Organization>> {
    std::vector<Organization> out;
    for (const auto& row : tx.exec_params(
             std::string(kOrganization) + "WHERE o.org > $1 ORDER BY o.org LIMIT $2", page.after, page.limit))
      out.push_back(organization_of(row));
    return out;
  });
}

Result<Organization> Tenants::organization(const OrgId& org) {
  return pool_.with_tx([&](pg::Tx& tx) { return find_organization(tx, org); });
}

Result<Organization> Tenants::suspend(const OrgId& org, const std::string& reason) {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<Organization> {
    tx.exec_params0(
        "UPDATE organizations SET suspended_us = coalesce(suspended_us, $2), suspended_reason = $3 "
        "WHERE org = $1",
        org.str(), to_micros(clock_.now()), reason);
    return find_organization(tx, org);
  });
}

Result<Organization> Tenants::resume(const OrgId& org) {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<Organization> {
    tx.exec_params0("UPDATE organizations SET suspended_us = NULL, suspended_reason = '' WHERE org = $1",
                    org.str());
    return find_organization(tx, org);
  });
}

Result<Organization> Tenants::set_quotas(const OrgId& org, const QuotaRow& quotas) {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<Organization> {
    tx.exec_params0(
        "UPDATE organizations SET quota_sandboxes = $2, quota_cpu_milli = $3, quota_stored_bytes = $4, "
        "quota_creates_per_minute = $5 WHERE org = $1",
        org.str(), quotas.sandboxes, quotas.cpu_milli, quotas.stored_bytes, quotas.creates_per_minute);
    return find_organization(tx, org);
  });
}

Result<void> Tenants::bootstrap(const OrgId& org, const std::string& project, const std::string& secret) {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<void> {
    const int64_t now = to_micros(clock_.now());
    tx.exec_params0("INSERT INTO organizations (org, created_us) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                    org.str(), now);
    tx.exec_params0(
        "INSERT INTO projects (id, org, name, created_us) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
        project_id(org, project).str(), org.str(), project, now);
    const std::string hash = sha256_hex(secret);
    if (!tx.exec_params("SELECT 1 FROM api_key_secrets WHERE sha256 = $1", hash).empty()) return {};
    const std::string id = random_uuid();
    tx.exec_params0("INSERT INTO api_keys (id, org, role, name, created_us) VALUES ($1, $2, 'admin', $3, $4)",
                    id, org.str(), "bootstrap-" + id.substr(0, 8), now);
    tx.exec_params0("INSERT INTO api_key_secrets (sha256, key_id, hint, created_us) VALUES ($1, $2, $3, $4)",
                    hash, id, secret.substr(0, 10), now);
    return {};
  });
}

Result<std::vector<Project>> Tenants::projects(const OrgId& org, const NamePage& page) {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<std::vector<Project>> {
    std::vector<Project> out;
    for (const auto& row : tx.exec_params("SELECT id, name, created_us FROM projects "
                                          "WHERE org = $1 AND name > $2 ORDER BY name LIMIT $3",
                                          org.str(), page.after, page.limit))
      out.push_back(
          {ProjectId(row[0].as<std::string>()), row[1].as<std::string>(), from_micros(row[2].as<int64_t>())});
    return out;
  });
}

Result<Project> Tenants::project(const OrgId& org, const std::string& name) {
  return pool_.with_tx([&](pg::Tx& tx) { return find_project(tx, org, name, false); });
}

Result<Project> Tenants::create_project(const OrgId& org, const std::string& name) {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<Project> {
    tx.exec_params("SELECT pg_advisory_xact_lock(hashtext($1))", "projects/" + org.str());
    const auto count = tx.exec_params1("SELECT count(*) FROM projects WHERE org = $1", org.str());
    const auto made = tx.exec_params(
        "INSERT INTO projects (id, org, name, created_us) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
        project_id(org, name).str(), org.str(), name, to_micros(clock_.now()));
    if (made.affected_rows() == 0)
      return fail(Code::kConflict, "AlreadyExists", "Project \"" + name + "\" exists.");
    if (count[0].as<int64_t>() >= kMaxProjects)
      return fail(Code::kForbidden, "QuotaExceeded",
                  fmt::format("exceeded quota: projects: an organization has at most {}.", kMaxProjects));
    return find_project(tx, org, name, false);
  });
}

Result<Project> Tenants::delete_project(const OrgId& org, const std::string& name) {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<Project> {
    // A create takes this row FOR KEY SHARE (app/quotas.cpp): either it is seen here, or it finds no project.
    auto project = find_project(tx, org, name, true);
    if (!project) return project;
    const auto live = tx.exec_params1(
        "SELECT count(*) FROM (SELECT 1 FROM sandboxes WHERE project = $1 LIMIT 1000) s", project->id.str());
    if (const auto count = live[0].as<int64_t>(); count > 0)
      return fail(Code::kConflict, "ProjectNotEmpty",
                  fmt::format("Project \"{}\" has {}{} Sandboxes. Delete them first; nothing was changed.",
                              name, count, count == 1000 ? " or more" : ""));
    tx.exec_params0(
        "UPDATE api_keys SET revoked_us = $3 WHERE org = $1 AND project = $2 AND revoked_us IS NULL",
        org.str(), name, to_micros(clock_.now()));
    tx.exec_params0("DELETE FROM projects WHERE id = $1", project->id.str());
    return project;
  });
}

}  // namespace nodus::lifecycle
