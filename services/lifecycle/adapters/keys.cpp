#include "services/lifecycle/adapters/keys.hpp"

#include <algorithm>

#include "libs/base/random.hpp"
#include "libs/pg/reader.hpp"

namespace nodus::lifecycle {

namespace {

constexpr size_t kMaxKept = 10'000;
constexpr Micros kKeptFor{500'000};
constexpr size_t kMaxHeader = 256;

std::unexpected<Error> unauthorized() {
  return fail(Code::kUnauthenticated, "Unauthorized",
              "Send an API key that is in force: Authorization: Bearer <key>.");
}

// The hash of the secret that an Authorization field carries; nothing when it carries none.
std::optional<std::string> secret_hash(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size() || authorization.size() > kMaxHeader) return std::nullopt;
  for (size_t i = 0; i < kScheme.size(); ++i)  // a scheme is compared without case
    if ((authorization[i] | (i < kScheme.size() - 1 ? 0x20 : 0)) != kScheme[i]) return std::nullopt;
  return sha256_hex(authorization.substr(kScheme.size()));
}

}  // namespace

template <class T>
std::optional<T> Keys::look(const std::map<std::string, Kept<T>>& in, const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto it = in.find(key);
  if (it == in.end() || it->second.until <= clock_.boot()) return std::nullopt;
  return it->second.value;
}

template <class T>
void Keys::keep(std::map<std::string, Kept<T>>& in, const std::string& key, T value, uint64_t generation,
                Micros until) {
  std::lock_guard lock(mutex_);
  if (generation != generation_) return;
  if (in.size() >= kMaxKept) in.clear();
  in.insert_or_assign(key, Kept<T>{std::move(value), until});
}

uint64_t Keys::generation() {
  std::lock_guard lock(mutex_);
  return generation_;
}

void Keys::forget() {
  std::lock_guard lock(mutex_);
  ++generation_;
  holders_.clear();
  projects_.clear();
}

std::optional<KeyHolder> Keys::known(std::string_view authorization) {
  const auto hash = secret_hash(authorization);
  return hash ? look(holders_, *hash) : std::nullopt;
}

std::optional<ProjectId> Keys::known_project(const KeyHolder& holder, const std::string& name) {
  if (!holder.bound_project.empty() && holder.bound_project != name) return std::nullopt;
  return look(projects_, holder.org.str() + "/" + name);
}

Result<KeyHolder> Keys::find(std::string_view authorization) {
  const auto hash = secret_hash(authorization);
  if (!hash) return unauthorized();
  if (auto found = look(holders_, *hash)) return std::move(*found);
  const uint64_t generation = this->generation();
  const int64_t now_us = to_micros(clock_.now());
  Micros until = clock_.boot() + kKeptFor;
  auto holder = pg::read(pool_, [&](pqxx::nontransaction& reader) -> Result<KeyHolder> {
    const auto rows = reader.exec_params(
        "SELECT k.id, k.name, k.org, k.role, k.project, o.suspended_us IS NOT NULL, "
        "coalesce(o.suspended_reason, ''), least(s.expires_us, k.expires_us) "
        "FROM api_key_secrets s JOIN api_keys k ON k.id = s.key_id LEFT JOIN organizations o ON o.org = "
        "k.org "
        "WHERE s.sha256 = $1 AND k.revoked_us IS NULL "
        "AND coalesce(least(s.expires_us, k.expires_us) > $2, true)",
        *hash, now_us);
    if (rows.empty()) return unauthorized();
    const auto& row = rows[0];
    if (!row[7].is_null()) until = std::min(until, clock_.boot() + Micros(row[7].as<int64_t>() - now_us));
    return KeyHolder{OrgId(row[2].as<std::string>()), row[0].as<std::string>(), row[1].as<std::string>(),
                     row[3].as<std::string>(),        row[4].as<std::string>(), row[5].as<bool>(),
                     row[6].as<std::string>()};
  });
  if (holder) keep(holders_, *hash, *holder, generation, until);
  return holder;
}

Result<ProjectId> Keys::project(const KeyHolder& holder, const std::string& name) {
  const auto none = [&] {
    return fail(Code::kNotFound, "NotFound", "There is no project named \"" + name + "\".");
  };
  if (!holder.bound_project.empty() && holder.bound_project != name) return none();
  if (auto found = known_project(holder, name)) return std::move(*found);
  const uint64_t generation = this->generation();
  const Micros until = clock_.boot() + kKeptFor;
  auto id = pg::read(pool_, [&](pqxx::nontransaction& reader) -> Result<ProjectId> {
    const auto rows =
        reader.exec_params("SELECT id FROM projects WHERE org = $1 AND name = $2", holder.org.str(), name);
    if (rows.empty()) return none();
    return ProjectId(rows[0][0].as<std::string>());
  });
  if (id) keep(projects_, holder.org.str() + "/" + name, *id, generation, until);
  return id;
}

}  // namespace nodus::lifecycle
