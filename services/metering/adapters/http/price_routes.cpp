#include <boost/json.hpp>

#include "libs/config/config.hpp"
#include "services/metering/adapters/http/money_queries.hpp"
#include "services/metering/adapters/postgres/rows.hpp"
#include "services/metering/domain/funds.hpp"

namespace nodus::metering {

namespace json = boost::json;

namespace {

constexpr int kSecondsPerHour = 3'600;
constexpr int64_t kMi = 1 << 20;
constexpr int64_t kGi = 1 << 30;

Result<std::vector<PriceVersion>> book_of(const MoneyDeps& deps) {
  return deps.pool.with_tx([](pg::Tx& tx) -> Result<std::vector<PriceVersion>> { return read_prices(tx); });
}

struct Wish {
  Shape shape{1'000, kGi, 10 * kGi};  // what a Sandbox is unless it says otherwise
  std::string machine_type;
};

Result<Wish> wish_of(const http::Request& request) {
  const auto query = query_of(request, {"cpu", "memory", "disk", "machineType"});
  if (!query) return std::unexpected(query.error());
  Wish wish;
  Error error{Code::kInvalid, "Invalid", "The quote has faults."};
  const auto ranged = [&](const char* name, int64_t& into, Result<int64_t> (*parse)(std::string_view),
                          int64_t low, int64_t high, const char* range) {
    const auto given = query->find(name);
    if (given == query->end()) return;
    const auto value = parse(given->second);
    if (!value || *value < low || *value > high)
      error.causes.push_back({name, "FieldValueInvalid",
                              std::string("must be ") + range + (value ? "" : ". " + value.error().message)});
    else
      into = *value;
  };
  auto& shape = wish.shape;
  ranged("cpu", shape.cpu_milli, config::parse_cpu_milli, 250, 64'000, "0.25 to 64 vCPU");
  ranged("memory", shape.memory_bytes, config::parse_bytes, 128 * kMi, 256 * kGi, "128Mi to 256Gi");
  ranged("disk", shape.disk_bytes, config::parse_bytes, kGi, 200 * kGi, "1Gi to 200Gi");
  if (const auto given = query->find("machineType"); given != query->end()) wish.machine_type = given->second;
  if (!error.causes.empty()) return std::unexpected(std::move(error));
  return wish;
}

Result<PricesUsed> priced(const Wish& wish, const PriceVersion& price) {
  auto prices = prices_of(wish.shape, wish.machine_type, price);
  if (prices) return *prices;
  std::string types;
  for (const auto& [type, per_s] : price.machines) types += (types.empty() ? "" : ", ") + type;
  Error error{Code::kInvalid, "Invalid", "The quote has faults."};
  error.causes.push_back(
      {"machineType", "FieldValueInvalid",
       "has no price; " + (types.empty() ? "no machine type has one" : "one of " + types)});
  return std::unexpected(std::move(error));
}

}  // namespace

json::object price_json(const PriceVersion& price, const char* state) {
  json::object machines;
  for (const auto& [type, per_s] : price.machines) machines[type] = per_s.to_decimal();
  return {{"version", price.version},
          {"state", state},
          {"effectiveAt", to_rfc3339(price.effective_at)},
          {"cpuPerVcpuSecond", price.cpu_per_vcpu_s.to_decimal()},
          {"memoryPerGibSecond", price.memory_per_gib_s.to_decimal()},
          {"diskPerGibSecond", price.disk_per_gib_s.to_decimal()},
          {"storagePerGibSecond", price.storage_per_gib_s.to_decimal()},
          {"machinePerSecond", std::move(machines)}};
}

http::Response answer_prices(const MoneyDeps& deps, const http::Request& request) {
  if (const auto caller = who_asks(deps, request); !caller) return http::status(caller.error());
  if (const auto query = query_of(request, {}); !query) return http::status(query.error());
  const auto book = book_of(deps);
  if (!book) return http::status(book.error());
  const Instant now = deps.clock.now();
  const auto* present = in_force(*book, now);
  json::array items;
  for (const auto& price : *book)
    if (&price == present || price.effective_at > now)
      items.push_back(price_json(price, &price == present ? "InForce" : "Ahead"));
  const json::object body{{"kind", "PriceList"},
                          {"apiVersion", "nodus.dev/v1"},
                          {"currency", "USD"},
                          {"feePercent", "12.5"},
                          {"items", std::move(items)}};
  return http::json(200, json::serialize(body));
}

http::Response answer_quote(const MoneyDeps& deps, const http::Request& request) {
  const auto caller = who_asks(deps, request);
  if (!caller) return http::status(caller.error());
  const auto wish = wish_of(request);
  if (!wish) return http::status(wish.error());
  const auto book = book_of(deps);
  if (!book) return http::status(book.error());
  const Instant now = deps.clock.now();
  const auto* price = in_force(*book, now);
  if (price == nullptr)
    return http::status({Code::kUnavailable, "NoPriceBook", "No price version is in force now.", {}, 60, {}});
  const auto prices = priced(*wish, *price);
  if (!prices) return http::status(prices.error());
  const auto account = account_of(deps, caller->org);
  if (!account) return http::status(account.error());
  const Rate rate = rate_of(*prices);
  const Money hold = rate * deps.durations.hold.count();
  const Funds funds = funds_at(*account, to_money_second(now));
  json::object body{{"kind", "Quote"},
                    {"apiVersion", "nodus.dev/v1"},
                    {"resources", json::object{{"cpu", config::format_cpu(wish->shape.cpu_milli)},
                                               {"memory", config::format_bytes(wish->shape.memory_bytes)},
                                               {"disk", config::format_bytes(wish->shape.disk_bytes)}}},
                    {"priceVersion", price->version},
                    {"ratePerSecond", rate.to_decimal()},
                    {"ratePerHour", (rate * kSecondsPerHour).to_decimal()},
                    {"hold", hold.to_decimal()},
                    {"holdSeconds", deps.durations.hold.count()},
                    {"available", funds.available.to_decimal()},
                    {"funded", funds.available >= hold}};
  if (!wish->machine_type.empty()) body["machineType"] = wish->machine_type;
  const PriceVersion* next = nullptr;
  for (const auto& version : *book)
    if (version.effective_at > now && (next == nullptr || version.effective_at < next->effective_at))
      next = &version;
  if (next != nullptr) {
    json::object ahead{{"priceVersion", next->version}, {"effectiveAt", to_rfc3339(next->effective_at)}};
    if (const auto then = prices_of(wish->shape, wish->machine_type, *next))
      ahead["ratePerSecond"] = rate_of(*then).to_decimal();
    body["next"] = std::move(ahead);
  }
  return http::json(200, json::serialize(body));
}

}  // namespace nodus::metering
