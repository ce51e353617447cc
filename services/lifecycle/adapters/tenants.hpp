// Organizations, their projects and their keys, as rows. All blocking. Lists are sorted by name and paged:
// `after` is the last name of the page before. NotFound says the same for what never was and for what is
// another organization's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/ids.hpp"
#include "libs/pg/connection.hpp"
#include "services/lifecycle/app/quotas.hpp"

namespace nodus::lifecycle {

struct NamePage {
  int limit = 500;    // 1 to 500
  std::string after;  // the last name of the page before; empty: the first page
};

// Absent: the platform's default (configuration, quota.*).
struct QuotaRow {
  std::optional<int64_t> sandboxes;
  std::optional<int64_t> cpu_milli;
  std::optional<int64_t> stored_bytes;
  std::optional<int64_t> creates_per_minute;
};

Quotas effective(const QuotaRow& row, const Quotas& defaults);

struct Organization {
  OrgId org;
  std::string display_name;
  Instant created_at;
  std::optional<Instant> suspended_at;
  std::string suspended_reason;
  QuotaRow quotas;
  Share usage;
};

struct Project {
  ProjectId id;
  std::string name;
  Instant created_at;
};

struct Secret {
  std::string hint;  // its first characters
  Instant created_at;
  std::optional<Instant> expires_at;
};

struct ApiKey {
  std::string id;
  std::string name;
  std::string role;
  std::string project;     // name of the only one it may use; empty: all
  std::string created_by;  // a key's id; empty: the operator
  Instant created_at;
  std::optional<Instant> expires_at;
  std::vector<Secret> secrets;  // in force, newest first
};

struct NewKey {
  std::string name;
  std::string role;
  std::string project;
  std::string created_by;
  std::optional<Instant> expires_at;
};

struct KeyWithSecret {
  ApiKey key;
  std::string secret;  // shown once: it is not kept
};

class Tenants {
 public:
  Tenants(pg::Pool& pool, const Clock& clock) : pool_(pool), clock_(clock) {}

  // ---- the operator's
  Result<Organization> create_organization(const OrgId& org, const std::string& display_name);
  Result<std::vector<Organization>> organizations(const NamePage& page);
  // Suspending a suspended one keeps its date; resuming starts nothing. NotFound.
  Result<Organization> suspend(const OrgId& org, const std::string& reason);
  Result<Organization> resume(const OrgId& org);
  Result<Organization> set_quotas(const OrgId& org, const QuotaRow& quotas);
  // Makes the organization, the project and, if `secret` is not known yet, an admin key. Idempotent.
  Result<void> bootstrap(const OrgId& org, const std::string& project, const std::string& secret);

  // ---- an organization's own
  Result<Organization> organization(const OrgId& org);
  Result<std::vector<Project>> projects(const OrgId& org, const NamePage& page);
  Result<Project> project(const OrgId& org, const std::string& name);
  // Conflict/AlreadyExists, Forbidden/QuotaExceeded.
  Result<Project> create_project(const OrgId& org, const std::string& name);
  // Conflict/ProjectNotEmpty while a Sandbox of it exists, also for creates at the same time. Keys that may
  // use only this project are revoked with it.
  Result<Project> delete_project(const OrgId& org, const std::string& name);

  Result<std::vector<ApiKey>> keys(const OrgId& org, const NamePage& page);
  Result<ApiKey> key(const OrgId& org, const std::string& name);
  Result<KeyWithSecret> create_key(const OrgId& org, const NewKey& wanted);
  // A new secret; those in force stay so for `overlap` at most. Conflict/TooManySecrets.
  Result<KeyWithSecret> rotate_key(const OrgId& org, const std::string& name, Micros overlap);
  // Conflict/LastAdminKey: an organization keeps a key that can make others.
  Result<ApiKey> revoke_key(const OrgId& org, const std::string& name);

 private:
  pg::Pool& pool_;
  const Clock& clock_;
};

// "nodus_" and 256 random bits.
std::string new_secret();

}  // namespace nodus::lifecycle
