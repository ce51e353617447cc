#include <fmt/core.h>

#include "libs/base/random.hpp"
#include "services/lifecycle/adapters/tenants.hpp"

namespace nodus::lifecycle {

namespace {

constexpr int64_t kMaxKeys = 1'000;
constexpr int64_t kMaxSecrets = 5;
constexpr size_t kHintBytes = 10;  // "nodus_" and four of 43 characters

constexpr const char* kColumns =
    "SELECT k.id, k.name, k.role, k.project, k.created_by, k.created_us, k.expires_us FROM api_keys k ";

std::optional<Instant> maybe_instant(const pqxx::field& field) {
  return field.is_null() ? std::nullopt : std::optional(from_micros(field.as<int64_t>()));
}

std::optional<int64_t> micros_of(const std::optional<Instant>& at) {
  return at ? std::optional(to_micros(*at)) : std::nullopt;
}

ApiKey key_of(const pqxx::row& row) {
  return {row[0].as<std::string>(), row[1].as<std::string>(),
          row[2].as<std::string>(), row[3].as<std::string>(),
          row[4].as<std::string>(), from_micros(row[5].as<int64_t>()),
          maybe_instant(row[6]),    {}};
}

void read_secrets(pg::Tx& tx, ApiKey& key, Instant now) {
  for (const auto& row : tx.exec_params("SELECT hint, created_us, expires_us FROM api_key_secrets "
                                        "WHERE key_id = $1 AND coalesce(expires_us > $2, true) "
                                        "ORDER BY created_us DESC, sha256",
                                        key.id, to_micros(now)))
    key.secrets.push_back(
        {row[0].as<std::string>(), from_micros(row[1].as<int64_t>()), maybe_instant(row[2])});
}

Result<ApiKey> find_key(pg::Tx& tx, const OrgId& org, const std::string& name, Instant now) {
  const auto rows = tx.exec_params(
      std::string(kColumns) + "WHERE k.org = $1 AND k.name = $2 AND k.revoked_us IS NULL", org.str(), name);
  if (rows.empty()) return fail(Code::kNotFound, "NotFound", "There is no key named \"" + name + "\".");
  ApiKey key = key_of(rows[0]);
  read_secrets(tx, key, now);
  return key;
}

// Changes of an organization's keys come one after the other.
void lock_keys(pg::Tx& tx, const OrgId& org) {
  tx.exec_params("SELECT pg_advisory_xact_lock(hashtext($1))", "keys/" + org.str());
}

void add_secret(pg::Tx& tx, const std::string& key_id, const std::string& secret, Instant now) {
  tx.exec_params0("INSERT INTO api_key_secrets (sha256, key_id, hint, created_us) VALUES ($1, $2, $3, $4)",
                  sha256_hex(secret), key_id, secret.substr(0, kHintBytes), to_micros(now));
}

}  // namespace

std::string new_secret() {
  return "nodus_" + random_token();
}

Result<std::vector<ApiKey>> Tenants::keys(const OrgId& org, const NamePage& page) {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<std::vector<ApiKey>> {
    std::vector<ApiKey> out;
    for (const auto& row :
         tx.exec_params(std::string(kColumns) + "WHERE k.org = $1 AND k.name > $2 AND k.revoked_us IS NULL "
                                                "ORDER BY k.name LIMIT $3",
                        org.str(), page.after, page.limit)) {
      out.push_back(key_of(row));
      read_secrets(tx, out.back(), clock_.now());
    }
    return out;
  });
}

Result<ApiKey> Tenants::key(const OrgId& org, const std::string& name) {
  return pool_.with_tx([&](pg::Tx& tx) { return find_key(tx, org, name, clock_.now()); });
}

Result<KeyWithSecret> Tenants::create_key(const OrgId& org, const NewKey& wanted) {
  const Instant now = clock_.now();
  return pool_.with_tx([&](pg::Tx& tx) -> Result<KeyWithSecret> {
    lock_keys(tx, org);
    if (!wanted.project.empty() &&
        tx.exec_params("SELECT 1 FROM projects WHERE org = $1 AND name = $2 FOR KEY SHARE", org.str(),
                       wanted.project)
            .empty())
      return fail(Code::kNotFound, "NotFound", "There is no project named \"" + wanted.project + "\".");
    if (find_key(tx, org, wanted.name, now))
      return fail(
          Code::kConflict, "AlreadyExists",
          "Key \"" + wanted.name + "\" exists. Rotate it, or delete it first; its secret is not kept.");
    const auto count =
        tx.exec_params1("SELECT count(*) FROM api_keys WHERE org = $1 AND revoked_us IS NULL", org.str());
    if (count[0].as<int64_t>() >= kMaxKeys)
      return fail(Code::kForbidden, "QuotaExceeded",
                  fmt::format("exceeded quota: keys: an organization has at most {}.", kMaxKeys));
    const std::string id = random_uuid();
    tx.exec_params0(
        "INSERT INTO api_keys (id, org, role, name, project, created_by, created_us, expires_us) "
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        id, org.str(), wanted.role, wanted.name, wanted.project, wanted.created_by, to_micros(now),
        micros_of(wanted.expires_at));
    std::string secret = new_secret();
    add_secret(tx, id, secret, now);
    auto key = find_key(tx, org, wanted.name, now);
    if (!key) return std::unexpected(std::move(key.error()));
    return KeyWithSecret{std::move(*key), std::move(secret)};
  });
}

Result<KeyWithSecret> Tenants::rotate_key(const OrgId& org, const std::string& name, Micros overlap) {
  const Instant now = clock_.now();
  return pool_.with_tx([&](pg::Tx& tx) -> Result<KeyWithSecret> {
    lock_keys(tx, org);
    auto key = find_key(tx, org, name, now);
    if (!key) return std::unexpected(std::move(key.error()));
    tx.exec_params0(
        "UPDATE api_key_secrets SET expires_us = least(expires_us, $2) WHERE key_id = $1 "
        "AND coalesce(expires_us > $2, true)",
        key->id, to_micros(now + overlap));
    tx.exec_params0("DELETE FROM api_key_secrets WHERE key_id = $1 AND expires_us <= $2", key->id,
                    to_micros(now));
    const auto left = tx.exec_params1("SELECT count(*) FROM api_key_secrets WHERE key_id = $1", key->id);
    if (left[0].as<int64_t>() >= kMaxSecrets)
      return fail(
          Code::kConflict, "TooManySecrets",
          fmt::format("Key \"{}\" has {} secrets in force. Wait until the older ones end, or rotate with a "
                      "shorter overlap (0s ends them at once).",
                      name, kMaxSecrets));
    std::string secret = new_secret();
    add_secret(tx, key->id, secret, now);
    key = find_key(tx, org, name, now);
    if (!key) return std::unexpected(std::move(key.error()));
    return KeyWithSecret{std::move(*key), std::move(secret)};
  });
}

Result<ApiKey> Tenants::revoke_key(const OrgId& org, const std::string& name) {
  const Instant now = clock_.now();
  return pool_.with_tx([&](pg::Tx& tx) -> Result<ApiKey> {
    lock_keys(tx, org);
    auto key = find_key(tx, org, name, now);
    if (!key) return key;
    const bool last =
        key->role == "admin" && key->project.empty() &&
        tx.exec_params(
              "SELECT 1 FROM api_keys WHERE org = $1 AND id <> $2 AND role = 'admin' AND project = '' "
              "AND revoked_us IS NULL AND coalesce(expires_us > $3, true) LIMIT 1",
              org.str(), key->id, to_micros(now))
            .empty();
    if (last)
      return fail(
          Code::kConflict, "LastAdminKey",
          "Key \"" + name +
              "\" is the last one that can make keys. Make another admin key first, or rotate this one.");
    tx.exec_params0("UPDATE api_keys SET revoked_us = $2 WHERE id = $1", key->id, to_micros(now));
    return key;
  });
}

}  // namespace nodus::lifecycle
