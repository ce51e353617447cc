#include "services/metering/adapters/http/bill_route.hpp"

#include <boost/json.hpp>
#include <charconv>

#include "libs/http/identity.hpp"

namespace nodus::metering {

namespace {

constexpr int kDefaultLimit = 500;
constexpr int kMaxLimit = 1'000;
constexpr size_t kMaxName = 253;

boost::json::object to_json(const BillLine& line) {
  boost::json::object json;
  json["sandbox"] = line.sandbox;
  json["sandboxUid"] = line.uid.str();
  json["start"] = line.start;
  json["kind"] = to_string(line.line.kind);
  json["from"] = to_rfc3339(to_instant(line.line.from_s));
  json["to"] = to_rfc3339(to_instant(line.line.to_s));
  json["seconds"] = line.line.to_s - line.line.from_s;
  json["rate"] = line.rate.to_decimal();
  json["amount"] = line.line.amount.to_decimal();
  json["waived"] = line.line.waived;
  if (line.open) json["open"] = true;
  return json;
}

Result<BillQuery> query_of(const http::Request& request, const http::Identity& identity) {
  BillQuery query{.org = identity.org, .project = identity.project, .limit = kDefaultLimit};
  Error error{Code::kBadRequest, "BadRequest", "The query of a bill has faults."};
  if (query.project.empty()) error.causes.push_back({"project", "FieldValueInvalid", "is missing"});
  const auto fault = [&](std::string field, std::string message) {
    error.causes.push_back({std::move(field), "FieldValueInvalid", std::move(message)});
  };
  for (const auto& [name, value] : request.query) {
    if (request.query.count(name) > 1) {
      fault(name, "is given more than once");
    } else if (name == "sandbox") {
      if (value.empty() || value.size() > kMaxName) fault(name, "must be the name of a Sandbox");
      query.sandbox = value;
    } else if (name == "limit") {
      const auto [end, fine] = std::from_chars(value.data(), value.data() + value.size(), query.limit);
      if (fine != std::errc() || end != value.data() + value.size() || query.limit < 1 ||
          query.limit > kMaxLimit)
        fault(name, "must be 1 to " + std::to_string(kMaxLimit));
    } else if (name == "continue") {
      query.after = value;
    } else {
      fault(name, "is unknown; a bill takes sandbox, limit and continue");
    }
  }
  if (!error.causes.empty()) return std::unexpected(std::move(error));
  return query;
}

}  // namespace

http::Response answer_bill(const BillDeps& deps, const http::Request& request) {
  const auto now = deps.clock.now();
  const auto identity =
      http::verify_identity(request.headers.get("X-Nodus-Identity").value_or(""), deps.identity_secret, now);
  if (!identity) return http::status(identity.error());
  const auto query = query_of(request, *identity);
  if (!query) return http::status(query.error());
  const auto page = read_bill(deps.pool, deps.log, *query, now);
  if (!page) return http::status(page.error());
  boost::json::array lines;
  for (const auto& line : page->lines) lines.push_back(to_json(line));
  boost::json::object bill;
  bill["kind"] = "Bill";
  bill["lines"] = std::move(lines);
  bill["total"] = page->total.to_decimal();
  bill["balance"] = page->balance.to_decimal();
  if (!page->next.empty()) bill["continue"] = page->next;
  return http::json(200, boost::json::serialize(bill));
}

}  // namespace nodus::metering
