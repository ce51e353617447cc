#include "services/metering/adapters/http/money_routes.hpp"

#include <boost/json.hpp>
#include <charconv>

#include "services/metering/adapters/http/money_queries.hpp"
#include "services/metering/adapters/postgres/rows.hpp"
#include "services/metering/app/streams.hpp"
#include "services/metering/domain/funds.hpp"

namespace nodus::metering {

namespace json = boost::json;

namespace {

constexpr int kDefaultLimit = 500;
constexpr int kMaxLimit = 1'000;
constexpr size_t kWebhookBytes = 256 * 1024;

json::object object_of_kind(const char* kind) {
  return {{"kind", kind}, {"apiVersion", "nodus.dev/v1"}};
}

http::Response answer(const json::object& object) {
  return http::json(200, json::serialize(object));
}

struct CreditPage {
  json::array items;
  std::string next;
};

Result<CreditPage> read_credits(pg::Pool& pool, const OrgId& org, const std::string& after, int limit) {
  return pool.with_tx([&](pg::Tx& tx) -> Result<CreditPage> {
    if (!after.empty() &&
        tx.exec_params("SELECT FROM credits WHERE org = $1 AND id = $2", org.str(), after).empty())
      return fail(Code::kBadRequest, "ContinueInvalid",
                  "\"continue\" is not one that a list gave; leave it out.");
    const auto rows = tx.exec_params(
        "SELECT id, kind, amount, uncovered, priority, expires_s, author, at_us,"
        " (SELECT coalesce(sum(-p.amount), 0)::numeric(38,12) FROM postings p WHERE p.org = $1"
        " AND p.kind = 'Expiry' AND (p.ref = id OR starts_with(p.ref, id || ' ')))"
        " FROM credits WHERE org = $1"
        " AND ($2 = '' OR (at_us, id) > (SELECT at_us, id FROM credits WHERE org = $1 AND id = $2))"
        " ORDER BY at_us, id LIMIT $3",
        org.str(), after, limit + 1);
    CreditPage page;
    for (const auto& row : rows) {
      if (std::cmp_equal(page.items.size(), limit)) {
        page.next = page.items.back().at("id").get_string();
        break;
      }
      json::object item{{"id", row[0].c_str()},
                        {"kind", row[1].c_str()},
                        {"amount", money_of(row[2]).to_decimal()},
                        {"author", row[6].c_str()},
                        {"postedAt", to_rfc3339(from_micros(row[7].as<int64_t>()))}};
      if (money_of(row[3]) != Money()) item["uncovered"] = money_of(row[3]).to_decimal();
      if (item.at("kind") == "Grant") item["priority"] = row[4].as<int>();
      if (const auto expires = optional_of(row[5])) item["expiresAt"] = to_rfc3339(to_instant(*expires));
      if (money_of(row[8]) != Money()) item["expired"] = money_of(row[8]).to_decimal();
      page.items.push_back(std::move(item));
    }
    return page;
  });
}

Result<int> limit_of(const std::map<std::string, std::string>& query) {
  const auto given = query.find("limit");
  if (given == query.end()) return kDefaultLimit;
  int limit = 0;
  const auto& text = given->second;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (fault == std::errc() && end == text.data() + text.size() && limit >= 1 && limit <= kMaxLimit)
    return limit;
  Error error{Code::kBadRequest, "BadRequest", "The query has faults."};
  error.causes.push_back({"limit", "FieldValueInvalid", "must be 1 to " + std::to_string(kMaxLimit)});
  return std::unexpected(std::move(error));
}

}  // namespace

Result<http::Identity> who_asks(const MoneyDeps& deps, const http::Request& request) {
  return http::verify_identity(request.headers.get("X-Nodus-Identity").value_or(""), deps.identity_secret,
                               deps.clock.now());
}

Result<std::map<std::string, std::string>> query_of(const http::Request& request,
                                                    const std::set<std::string>& known) {
  std::map<std::string, std::string> query;
  std::string names;
  for (const auto& name : known) names += (names.empty() ? "" : ", ") + name;
  Error error{Code::kBadRequest, "BadRequest", "The query has faults."};
  for (const auto& [name, value] : request.query) {
    if (!known.contains(name))
      error.causes.push_back(
          {name, "FieldValueInvalid", "is unknown; " + (names.empty() ? "there is nothing to ask" : names)});
    else if (!query.emplace(name, value).second)
      error.causes.push_back({name, "FieldValueInvalid", "is given more than once"});
  }
  if (!error.causes.empty()) return std::unexpected(std::move(error));
  return query;
}

Result<account::State> account_of(const MoneyDeps& deps, const OrgId& org) {
  const auto head = deps.log.head(account_stream(org));
  if (!head) return std::unexpected(head.error());
  if (head->version == 0) return account::State{.org = org};
  return codec::decode_account_state(head->state);
}

http::Response answer_balance(const MoneyDeps& deps, const http::Request& request) {
  const auto caller = who_asks(deps, request);
  if (!caller) return http::status(caller.error());
  if (const auto query = query_of(request, {}); !query) return http::status(query.error());
  const auto account = account_of(deps, caller->org);
  if (!account) return http::status(account.error());
  const Instant now = deps.clock.now();
  const Funds funds = funds_at(*account, to_money_second(now));
  auto body = object_of_kind("Balance");
  body["organization"] = caller->org.str();
  body["at"] = to_rfc3339(to_instant(to_money_second(now)));
  body["balance"] = funds.balance.to_decimal();
  body["held"] = funds.held.to_decimal();
  body["available"] = funds.available.to_decimal();
  body["ratePerSecond"] = funds.rate.to_decimal();
  json::array expiring;
  for (const auto& lot : funds.expiring)
    expiring.push_back(json::object{{"id", lot.id},
                                    {"left", lot.left.to_decimal()},
                                    {"priority", lot.priority},
                                    {"expiresAt", to_rfc3339(to_instant(*lot.expires_s))}});
  if (!expiring.empty()) body["expiring"] = std::move(expiring);
  if (funds.ends_s) body["endsAt"] = to_rfc3339(to_instant(*funds.ends_s));
  return answer(body);
}

http::Response answer_credits(const MoneyDeps& deps, const http::Request& request) {
  const auto caller = who_asks(deps, request);
  if (!caller) return http::status(caller.error());
  return answer_credits_of(deps, caller->org, request);
}

http::Response answer_credits_of(const MoneyDeps& deps, const OrgId& org, const http::Request& request) {
  const auto query = query_of(request, {"limit", "continue"});
  if (!query) return http::status(query.error());
  const auto limit = limit_of(*query);
  if (!limit) return http::status(limit.error());
  const auto after = query->find("continue");
  auto page = read_credits(deps.pool, org, after == query->end() ? std::string() : after->second, *limit);
  if (!page) return http::status(page.error());
  auto body = object_of_kind("CreditList");
  body["items"] = std::move(page->items);
  if (!page->next.empty()) body["continue"] = page->next;
  return answer(body);
}

void money_routes(http::Server& server, const MoneyDeps& deps) {
  const auto get = [&](const char* pattern, const char* name, auto handler) {
    server.route(
        {.method = "GET",
         .pattern = pattern,
         .name = name,
         .handler = [&deps, handler](const http::Request& request) { return handler(deps, request); }});
  };
  get("/v1/prices", "prices", answer_prices);
  get("/v1/quote", "quote", answer_quote);
  get("/v1/organization/balance", "balance", answer_balance);
  get("/v1/organization/credits", "credits", answer_credits);
  server.route({.method = "POST",
                .pattern = "/webhooks/stripe",
                .name = "webhooks.stripe",
                .handler = [&deps](const http::Request& request) { return answer_stripe(deps, request); },
                .body_bytes = kWebhookBytes});
}

}  // namespace nodus::metering
