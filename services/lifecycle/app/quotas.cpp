#include "services/lifecycle/app/quotas.hpp"

#include <fmt/core.h>

#include <boost/json.hpp>
#include <charconv>
#include <deque>
#include <optional>

#include "libs/config/config.hpp"

namespace nodus::lifecycle {

namespace {

namespace json = boost::json;

constexpr int64_t kWindowS = 60;

Share operator-(const Share& a, const Share& b) {
  return {a.sandboxes - b.sandboxes, a.cpu_milli - b.cpu_milli, a.stored_bytes - b.stored_bytes};
}

// Creates of the last minute, counted by second: the state of the quota stream, one "second count" a line.
class Creates {
 public:
  Creates(std::string_view state, int64_t now_s) {
    const char* at = state.data();
    const char* const end = at + state.size();
    while (at < end) {
      Slot slot;
      auto first = std::from_chars(at, end, slot.second);
      if (first.ec != std::errc() || first.ptr == end) break;
      auto second = std::from_chars(first.ptr + 1, end, slot.count);
      if (second.ec != std::errc() || second.ptr == end) break;
      at = second.ptr + 1;
      if (slot.second > now_s - kWindowS) slots_.push_back(slot);
    }
  }
  int64_t count() const {
    int64_t sum = 0;
    for (const auto& slot : slots_) sum += slot.count;
    return sum;
  }
  // Seconds until one more fits below `limit`.
  int wait_s(int64_t limit, int64_t now_s) const {
    int64_t left = count();
    for (const auto& slot : slots_) {
      left -= slot.count;
      if (left < limit) return static_cast<int>(std::max<int64_t>(1, slot.second + kWindowS - now_s));
    }
    return kWindowS;
  }
  void add(int64_t now_s) {
    if (slots_.empty() || slots_.back().second < now_s) slots_.push_back({now_s, 0});
    ++slots_.back().count;
  }
  std::string state() const {
    std::string out;
    for (const auto& slot : slots_) out += fmt::format("{} {}\n", slot.second, slot.count);
    return out;
  }

 private:
  struct Slot {
    int64_t second = 0;
    int64_t count = 0;
  };
  std::deque<Slot> slots_;
};

struct Standing {
  bool suspended = false;
  std::string reason;
  Quotas quotas;
  Share used;
};

std::optional<Standing> read_standing(pg::Tx& tx, const OrgId& org, const Quotas& defaults) {
  const auto rows = tx.exec_params(
      "SELECT o.suspended_us IS NOT NULL, o.suspended_reason, coalesce(o.quota_sandboxes, $2), "
      "coalesce(o.quota_cpu_milli, $3), coalesce(o.quota_stored_bytes, $4), "
      "coalesce(o.quota_creates_per_minute, $5), coalesce(u.sandboxes, 0) + coalesce(c.sandboxes, 0), "
      "coalesce(u.cpu_milli, 0) + coalesce(c.cpu_milli, 0), "
      "coalesce(u.stored_bytes, 0) + coalesce(c.stored_bytes, 0) "
      "FROM organizations o LEFT JOIN usage_sums u ON u.org = o.org, LATERAL "
      "(SELECT sum(sandboxes)::bigint AS sandboxes, sum(cpu_milli)::bigint AS cpu_milli, "
      "sum(stored_bytes)::bigint AS stored_bytes FROM usage_changes WHERE org = $1) c WHERE o.org = $1",
      org.str(), defaults.sandboxes, defaults.cpu_milli, defaults.stored_bytes, defaults.creates_per_minute);
  if (rows.empty()) return std::nullopt;
  const auto& row = rows[0];
  return Standing{row[0].as<bool>(),
                  row[1].as<std::string>(),
                  {row[2].as<int64_t>(), row[3].as<int64_t>(), row[4].as<int64_t>(), row[5].as<int64_t>()},
                  {row[6].as<int64_t>(), row[7].as<int64_t>(), row[8].as<int64_t>()}};
}

struct Numbers {
  std::string requested;
  std::string used;
  std::string limit;
};

Error exceeded(std::string_view quota, const Numbers& n, std::string_view next) {
  Error error{Code::kForbidden, "QuotaExceeded", "", {}, {}, {}};
  error.message = fmt::format("exceeded quota: {}: requested {}, used {}, limited to {}. {}", quota,
                              n.requested, n.used, n.limit, next);
  error.details_json = json::serialize(
      json::object{{"quota", quota}, {"requested", n.requested}, {"used", n.used}, {"limit", n.limit}});
  return error;
}

Result<void> check_share(const Standing& now, const Share& added) {
  const auto& [q, used] = std::tie(now.quotas, now.used);
  if (added.sandboxes > 0 && used.sandboxes + added.sandboxes > q.sandboxes)
    return std::unexpected(exceeded(
        "sandboxes",
        {std::to_string(added.sandboxes), std::to_string(used.sandboxes), std::to_string(q.sandboxes)},
        "Delete Sandboxes, or ask for a larger quota."));
  if (added.cpu_milli > 0 && used.cpu_milli + added.cpu_milli > q.cpu_milli)
    return std::unexpected(exceeded("cpu",
                                    {config::format_cpu(added.cpu_milli), config::format_cpu(used.cpu_milli),
                                     config::format_cpu(q.cpu_milli)},
                                    "Stop Sandboxes, or ask for a larger quota."));
  if (used.stored_bytes >= q.stored_bytes)
    return std::unexpected(
        exceeded("storedBytes", {"more", std::to_string(used.stored_bytes), std::to_string(q.stored_bytes)},
                 "Delete Sandboxes whose files are not needed any more, or ask for a larger quota."));
  return {};
}

Result<void> check_rate(eventlog::Unit& unit, const OrgId& org, int64_t limit, Instant now) {
  const std::string stream = quota_stream(org);
  const int64_t now_s = std::chrono::floor<Seconds>(now).time_since_epoch().count();
  Creates creates(unit.head(stream).state, now_s);
  if (creates.count() + 1 > limit) {
    Error error{Code::kTooManyRequests, "TooManyRequests", "", {}, creates.wait_s(limit, now_s), {}};
    error.message = fmt::format(
        "exceeded quota: createsPerMinute: {} Sandboxes were created in the last minute, limited to "
        "{}. Send the request again in {} seconds.",
        creates.count(), limit, *error.retry_after_s);
    error.details_json = json::serialize(json::object{{"quota", "createsPerMinute"},
                                                      {"requested", "1"},
                                                      {"used", std::to_string(creates.count())},
                                                      {"limit", std::to_string(limit)}});
    return std::unexpected(std::move(error));
  }
  creates.add(now_s);
  unit.append(stream, {}, creates.state(), 1);
  return {};
}

}  // namespace

Share share_of(const Sandbox& s) {
  if (!exists(s)) return {};
  const bool runs = s.start_open || s.deferred_until;
  return {1, runs ? s.spec.shape.cpu_milli : 0, s.restore_point ? s.restore_point->size_bytes : 0};
}

std::string quota_stream(const OrgId& org) {
  return "quota/" + org.str();
}

Error organization_suspended(const std::string& reason) {
  return {Code::kForbidden,
          "OrganizationSuspended",
          "Your organization is suspended" + (reason.empty() ? std::string() : ": " + reason) +
              ". Nothing can be created or started; what exists can be read and deleted. Ask the operator.",
          {},
          {},
          {}};
}

Result<void> check_quota(eventlog::Unit& unit, const Sandbox& before, const Sandbox& after,
                         const Quotas& defaults, Instant now) {
  const Share added = share_of(after) - share_of(before);
  pg::Tx* tx = unit.sql();
  if (tx == nullptr || (added.sandboxes <= 0 && added.cpu_milli <= 0)) return {};
  const auto standing = read_standing(*tx, after.org, defaults);
  if (!standing) return {};  // not a tenant: a test of the core
  if (standing->suspended) return std::unexpected(organization_suspended(standing->reason));
  if (added.sandboxes > 0 &&
      tx->exec_params("SELECT 1 FROM projects WHERE id = $1 FOR KEY SHARE", after.project.str()).empty())
    return fail(Code::kNotFound, "NotFound", "The project was deleted.");
  if (auto fits = check_share(*standing, added); !fits) return fits;
  if (added.sandboxes > 0) return check_rate(unit, after.org, standing->quotas.creates_per_minute, now);
  return {};
}

void project_usage(pg::Tx& tx, const Sandbox& before, const Sandbox& after) {
  const Share change = share_of(after) - share_of(before);
  if (change == Share{}) return;
  tx.later({"usage_change",
            "INSERT INTO usage_changes (org, sandboxes, cpu_milli, stored_bytes) VALUES ($1, $2, $3, $4)",
            after.org.str(), change.sandboxes, change.cpu_milli, change.stored_bytes});
}

}  // namespace nodus::lifecycle
