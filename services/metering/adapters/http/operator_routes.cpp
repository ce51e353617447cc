#include "services/metering/adapters/http/operator_routes.hpp"

#include <boost/json.hpp>

#include "libs/base/random.hpp"
#include "libs/http/json_body.hpp"
#include "libs/telemetry/log.hpp"
#include "services/metering/adapters/http/json_faults.hpp"
#include "services/metering/adapters/http/money_queries.hpp"
#include "services/metering/adapters/operations.hpp"
#include "services/metering/adapters/postgres/rows.hpp"
#include "services/metering/adapters/price_file.hpp"

namespace nodus::metering {

namespace json = boost::json;

namespace {

constexpr size_t kPriceBytes = 1024 * 1024;
constexpr size_t kSmallBytes = 16 * 1024;
constexpr const char* kPrices = "/operator/v1/prices";
constexpr const char* kCredits = "/operator/v1/organizations/{org}/credits";
constexpr const char* kBrake = "/operator/v1/brake";

Result<void> is_operator(const OperatorDeps& deps, const http::Request& request) {
  if (deps.token.empty())
    return fail(Code::kUnavailable, "OperatorApiNotConfigured", "No operator token is configured.");
  if (equal_in_constant_time(request.headers.get("Authorization").value_or(""), "Bearer " + deps.token))
    return {};
  return fail(Code::kUnauthenticated, "Unauthorized",
              "The operator API needs the header \"Authorization: Bearer …\" with the operator's token.");
}

JsonFaults faults_of(const json::object& body, std::initializer_list<std::string_view> known) {
  JsonFaults faults("The request has faults; nothing was changed.", "There is no such field.");
  faults.only(body, "", known);
  return faults;
}

http::Response answer(int status, json::object object) {
  return http::json(status, json::serialize(object));
}

http::Response every_price(const OperatorDeps& deps) {
  const auto book = deps.money.pool.with_tx(
      [](pg::Tx& tx) -> Result<std::vector<PriceVersion>> { return read_prices(tx); });
  if (!book) return http::status(book.error());
  const Instant now = deps.money.clock.now();
  const auto* present = in_force(*book, now);
  json::array items;
  for (const auto& price : *book)
    items.push_back(price_json(price, &price == present          ? "InForce"
                                      : price.effective_at > now ? "Ahead"
                                                                 : "Past"));
  return answer(200, {{"kind", "PriceList"},
                      {"apiVersion", "nodus.dev/v1"},
                      {"currency", "USD"},
                      {"items", std::move(items)}});
}

http::Response publish(const OperatorDeps& deps, const http::Request& request) {
  const auto proposed = read_price_text(request.body);
  if (!proposed) return http::status(proposed.error());
  const auto names = publish_prices(deps.money.pool, *proposed, deps.money.clock.now(), deps.price_lead);
  if (!names) return http::status(names.error());
  for (const auto& name : *names) log::info("metering.prices_published", {{"version", name}});
  return answer(names->empty() ? 200 : 201, {{"published", json::value_from(*names)}});
}

http::Response post(const OperatorDeps& deps, const OrgId& org, const http::Request& request) {
  const auto body = http::parse_json_object(request.body);
  if (!body) return http::status(body.error());
  auto faults = faults_of(*body, {"kind", "id", "amount", "author", "expires", "priority"});
  const auto text = [&](const char* field, const char* wanted) {
    return faults.text(*body, field, field, wanted);
  };
  CreditRequest asked;
  asked.org = org.str();
  asked.kind = text("kind", "Purchase, Grant, Refund or Adjustment goes here.");
  asked.id = text("id", "A string goes here.");
  asked.amount = text("amount", "An amount is a string, such as \"100.00\".");
  asked.author = text("author", "A string goes here.");
  asked.expires = text("expires", "An instant goes here, such as \"2027-01-01T00:00:00Z\".");
  asked.priority = faults.whole_number(*body, "priority", "priority", asked.priority);
  if (faults.any()) return http::status(faults.error());
  auto credit = credit_of(asked);
  if (!credit) return http::status(credit.error());
  const auto posted = post_credit(deps.money.log, deps.money.works, *credit);
  if (!posted) return http::status(posted.error());
  if (*posted)
    log::info("metering.credit_posted", {{"org", asked.org}, {"id", asked.id}, {"author", asked.author}});
  return answer(*posted ? 201 : 200, {{"kind", asked.kind},
                                      {"id", asked.id},
                                      {"organization", asked.org},
                                      {"amount", credit->amount.to_decimal()},
                                      {"posted", *posted}});
}

http::Response brake_now(const OperatorDeps& deps) {
  const auto changes = brake_changes(deps.money.pool);
  if (!changes) return http::status(changes.error());
  json::array items;
  for (const auto& change : *changes)
    items.push_back(json::object{{"engaged", change.engaged},
                                 {"reason", change.reason},
                                 {"author", change.author},
                                 {"at", to_rfc3339(change.at)}});
  const bool engaged = !changes->empty() && changes->front().engaged;
  return answer(200, {{"engaged", engaged}, {"changes", std::move(items)}});
}

http::Response set_brake(const OperatorDeps& deps, const http::Request& request) {
  const auto body = http::parse_json_object(request.body);
  if (!body) return http::status(body.error());
  auto faults = faults_of(*body, {"engaged", "reason", "author"});
  BrakeChange change;
  change.engaged = faults.required_switch(*body, "engaged", "engaged");
  change.reason = faults.text(*body, "reason", "reason");
  change.author = faults.text(*body, "author", "author");
  change.at = deps.money.clock.now();
  if (faults.any()) return http::status(faults.error());
  if (auto kept = change_brake(deps.money.pool, change); !kept) return http::status(kept.error());
  log::warn("metering.brake_changed", {{"engaged", change.engaged}, {"author", change.author}});
  return brake_now(deps);
}

}  // namespace

http::Response answer_operator(const OperatorDeps& deps, const http::Request& request) {
  if (const auto allowed = is_operator(deps, request); !allowed) return http::status(allowed.error());
  const auto org = request.params.find("org");
  const bool reads = request.method == "GET";
  if (org != request.params.end())
    return reads ? answer_credits_of(deps.money, OrgId(org->second), request)
                 : post(deps, OrgId(org->second), request);
  if (const auto query = query_of(request, {}); !query) return http::status(query.error());
  if (request.segments.back() == "prices") return reads ? every_price(deps) : publish(deps, request);
  return reads ? brake_now(deps) : set_brake(deps, request);
}

void operator_routes(http::Server& server, const OperatorDeps& deps) {
  const auto route = [&](const char* method, const char* pattern, const char* name, size_t bytes) {
    server.route({.method = method,
                  .pattern = pattern,
                  .name = name,
                  .handler = [&deps](const http::Request& request) { return answer_operator(deps, request); },
                  .body_bytes = bytes});
  };
  route("GET", kPrices, "operator.prices", 0);
  route("POST", kPrices, "operator.prices.publish", kPriceBytes);
  route("GET", kCredits, "operator.credits", 0);
  route("POST", kCredits, "operator.credits.post", kSmallBytes);
  route("GET", kBrake, "operator.brake", 0);
  route("PUT", kBrake, "operator.brake.set", kSmallBytes);
}

}  // namespace nodus::metering
