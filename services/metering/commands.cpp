#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "libs/eventlog/postgres_log.hpp"
#include "services/metering/adapters/audit.hpp"
#include "services/metering/adapters/inputs.hpp"
#include "services/metering/adapters/postgres/read_models.hpp"
#include "services/metering/adapters/price_file.hpp"
#include "services/metering/service.hpp"

namespace nodus::metering {

namespace {

constexpr int kMissing = 2;

// What a command needs of the service: its database, its log and its use cases.
struct Operator {
  explicit Operator(const Config& config) : pool(config.database, 2) {}
  Result<void> open(const Config& config) {
    auto made = eventlog::make_postgres_log(clock, pool, config.log_partitions);
    if (!made) return std::unexpected(std::move(made.error()));
    log = std::move(*made);
    projections.emplace(*log);
    works.emplace(clock, config.durations, lookups, *projections);
    return {};
  }

  SystemClock clock;
  pg::Pool pool;
  PostgresLookups lookups;
  std::unique_ptr<eventlog::EventLog> log;
  std::optional<PostgresProjections> projections;
  std::optional<Works> works;
};

bool is_label(const std::string& text) {
  const auto fine = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !text.empty() && text.size() <= 63 && std::ranges::all_of(text, fine);
}

}  // namespace

int complain(const Error& error, int code) {
  fmt::print(stderr, "nodus-metering: {}\n", error.message);
  for (const auto& cause : error.causes) fmt::print(stderr, "  {}: {}\n", cause.field, cause.message);
  return code;
}

int grant(const Config& config, const std::string& org, const std::string& amount, const std::string& id) {
  const auto money = Money::parse(amount);
  if (!money) return complain(money.error(), 1);
  if (!is_label(org)) return complain({Code::kInvalid, "", "--org takes the name of an organization."}, 1);
  if (id.empty() || id.size() > 128)
    return complain({Code::kInvalid, "", "--id takes 1 to 128 characters."}, 1);
  Operator with(config);
  if (auto opened = with.open(config); !opened) return complain(opened.error(), kMissing);
  const std::vector works = {
      with.works->on_account(PostCredit{OrgId(org), id, "Grant", *money, "operator", std::nullopt})};
  const auto answer = with.log->run(works).front();
  if (!answer) return complain(answer.error(), 1);
  fmt::print("grant {} of ${} to {}: {}\n", id, money->to_decimal(), org,
             *answer == "done" ? "posted" : "posted before");
  return 0;
}

int publish(const Config& config, const std::string& file) {
  const auto proposed = read_price_file(file);
  if (!proposed) return complain(proposed.error(), 1);
  Operator with(config);
  const auto names = publish_prices(with.pool, *proposed, with.clock.now(), config.price_lead);
  if (!names) return complain(names.error(), 1);
  for (const auto& name : *names) fmt::print("price version {}: published\n", name);
  if (names->empty()) fmt::print("nothing new: every version is published\n");
  return 0;
}

int run_audit(const Config& config) {
  Operator with(config);
  if (auto opened = with.open(config); !opened) return complain(opened.error(), kMissing);
  const auto checks = audit(with.pool, *with.log);
  if (!checks) return complain(checks.error(), 1);
  int64_t faults = 0;
  fmt::print("{:<58} {:>7}  {}\n", "CHECK", "FAULTS", "EXAMPLE");
  for (const auto& check : *checks) {
    fmt::print("{:<58} {:>7}  {}\n", check.name, check.faults, check.example);
    faults += check.faults;
  }
  return faults == 0 ? 0 : 1;
}

int parked_list(const Config& config) {
  Operator with(config);
  const auto parked = bus::list_parked(with.pool, 1'000);
  if (!parked) return complain(parked.error(), 1);
  fmt::print("{:<10} {:<48} {:>8}  {:<40} {}\n", "TOPIC", "STREAM", "VERSION", "TYPE", "ERROR");
  for (const auto& p : *parked)
    fmt::print("{:<10} {:<48} {:>8}  {:<40} {}\n", p.message.topic, p.message.stream, p.message.version,
               p.message.type, p.error);
  return 0;
}

int parked_replay(const Config& config, const std::string& topic, const std::string& stream) {
  Operator with(config);
  if (auto opened = with.open(config); !opened) return complain(opened.error(), kMissing);
  const auto applied = bus::replay_parked(*with.log, with.pool, scheduler_route(*with.works), topic, stream);
  if (!applied) return complain(applied.error(), 1);
  fmt::print("{} applied\n", *applied);
  return 0;
}

int parked_skip(const Config& config, const std::string& topic, const std::string& stream) {
  Operator with(config);
  const auto skipped = bus::skip_parked(with.pool, topic, stream);
  if (!skipped) return complain(skipped.error(), 1);
  fmt::print("{} skipped\n", *skipped);
  return 0;
}

}  // namespace nodus::metering
