#include "services/lifecycle/adapters/keys.hpp"

#include "libs/base/random.hpp"

namespace nodus::lifecycle {

namespace {

constexpr size_t kMaxKnown = 10'000;
constexpr Micros kKeptFor{2'000'000};
constexpr size_t kMaxKeyBytes = 256;

std::unexpected<Error> unauthorized() {
  return fail(Code::kUnauthenticated, "Unauthorized",
              "Send an API key that is in force: Authorization: Bearer <key>.");
}

}  // namespace

Result<http::Identity> Keys::authenticate(const http::Request& request,
                                          const std::optional<ProjectId>& project) {
  const auto header = request.headers.get("Authorization").value_or("");
  constexpr std::string_view kScheme = "Bearer ";
  if (!header.starts_with(kScheme) || header.size() == kScheme.size() || header.size() > kMaxKeyBytes)
    return unauthorized();
  const std::string hash = sha256_hex(std::string_view(header).substr(kScheme.size()));
  const std::string name = project ? project->str() : "";
  const std::string cache_key = hash + "/" + name;
  {
    std::lock_guard lock(mutex_);
    if (const auto it = known_.find(cache_key); it != known_.end() && it->second.until > clock_.boot())
      return it->second.identity;
  }
  auto identity = pool_.with_tx([&](pqxx::work& tx) -> Result<http::Identity> {
    const auto rows = tx.exec_params(
        "SELECT k.id, k.org, k.role, p.project FROM api_keys k "
        "LEFT JOIN projects p ON p.org = k.org AND p.project = $2 "
        "WHERE k.key_sha256 = $1 AND k.revoked_at IS NULL",
        hash, name);
    if (rows.empty()) return unauthorized();
    const auto& row = rows[0];
    if (project && row[3].is_null())
      return fail(Code::kNotFound, "NotFound", "There is no project named \"" + name + "\".");
    return http::Identity{OrgId(row[1].as<std::string>()), ProjectId(name), row[0].as<std::string>(),
                          row[2].as<std::string>()};
  });
  if (identity) {
    std::lock_guard lock(mutex_);
    if (known_.size() >= kMaxKnown) known_.clear();
    known_[cache_key] = {*identity, clock_.boot() + kKeptFor};
  }
  return identity;
}

Result<void> Keys::bootstrap(const OrgId& org, const ProjectId& project, const std::string& key) {
  return pool_.with_tx([&](pqxx::work& tx) -> Result<void> {
    tx.exec_params0("INSERT INTO projects (project, org) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                    project.str(), org.str());
    const auto owner = tx.exec_params1("SELECT org FROM projects WHERE project = $1", project.str());
    if (owner[0].as<std::string>() != org.str())
      return fail(Code::kConflict, "AlreadyExists",
                  "Project \"" + project.str() + "\" belongs to another organization.");
    tx.exec_params0(
        "INSERT INTO api_keys (id, key_sha256, org, role) VALUES ($1, $2, $3, 'admin') "
        "ON CONFLICT (key_sha256) DO NOTHING",
        random_uuid(), sha256_hex(key), org.str());
    return {};
  });
}

}  // namespace nodus::lifecycle
