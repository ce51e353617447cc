#include "services/metering/adapters/http/bill_route.hpp"

#include <boost/json.hpp>

#include "services/metering/app/calendar.hpp"

namespace nodus::metering {

namespace json = boost::json;

namespace {

// Names of projects are without their organization, as in paths.
std::string name_of(const ProjectId& project) {
  return project.str().substr(project.str().find('/') + 1);
}

json::object to_json(const BillLine& line) {
  json::object out{
      {"project", name_of(line.project)}, {"sandbox", line.sandbox}, {"sandboxUid", line.uid.str()}};
  out["start"] = line.start;
  out["kind"] = to_string(line.line.kind);
  out["from"] = to_rfc3339(to_instant(line.line.from_s));
  out["to"] = to_rfc3339(to_instant(line.line.to_s));
  out["seconds"] = line.line.to_s - line.line.from_s;
  out["rate"] = line.rate.to_decimal();
  out["amount"] = line.line.amount.to_decimal();
  out["waived"] = line.line.waived;
  out["reason"] = line.reason;
  if (line.open) out["open"] = true;
  return out;
}

json::object to_json(const BillGroup& group, BillBy by) {
  json::object out;
  switch (by) {
    case BillBy::kSandbox:
      out = {{"project", name_of(group.project)}, {"sandbox", group.sandbox}, {"sandboxUid", group.key}};
      break;
    case BillBy::kProject:
      out["project"] = name_of(group.project);
      break;
    case BillBy::kLabel:
      out["label"] = group.key.empty() ? json::value() : json::value(group.key.substr(1));
      break;
    case BillBy::kDay:
      out["day"] = day_text(std::stoll(group.key));
      break;
    default:
      out["reason"] = group.key;
  }
  out["seconds"] = group.seconds;
  out["waivedSeconds"] = group.waived_seconds;
  out["amount"] = group.amount.to_decimal();
  out["open"] = group.open.to_decimal();
  return out;
}

json::object to_json(const Bill& bill, const BillQuery& query) {
  json::object out{{"kind", "Bill"}, {"by", to_string(query.by)}, {"currency", "USD"}};
  if (query.by == BillBy::kLabel) out["label"] = query.label;
  if (query.from_s > 0) out["from"] = to_rfc3339(to_instant(query.from_s));
  if (query.to_s) out["to"] = to_rfc3339(to_instant(*query.to_s));
  out["at"] = to_rfc3339(to_instant(bill.at_s));
  json::array rows;
  for (const auto& line : bill.lines) rows.push_back(to_json(line));
  for (const auto& group : bill.groups) rows.push_back(to_json(group, query.by));
  out[query.by == BillBy::kLine ? "lines" : "groups"] = std::move(rows);
  out["total"] = bill.total.to_decimal();
  out["balance"] = bill.balance.to_decimal();
  if (!bill.next.empty()) out["continue"] = bill.next;
  return out;
}

}  // namespace

http::Response answer_bill(const BillDeps& deps, const http::Request& request, BillScope scope) {
  const auto now = deps.clock.now();
  const auto identity =
      http::verify_identity(request.headers.get("X-Nodus-Identity").value_or(""), deps.identity_secret, now);
  if (!identity) return http::status(identity.error());
  const auto query = read_bill_query(request, *identity, scope);
  if (!query) return http::status(query.error());
  const auto bill = read_bill(deps.pool, *query, now);
  if (!bill) return http::status(bill.error());
  return http::json(200, json::serialize(to_json(*bill, *query)));
}

void bill_routes(http::Server& server, const BillDeps& deps) {
  for (const auto& [pattern, name, scope] :
       {std::tuple{"/v1/bill", "bill", BillScope::kProject},
        std::tuple{"/v1/organization/bill", "organization.bill", BillScope::kOrganization}})
    server.route({.method = "GET",
                  .pattern = pattern,
                  .name = name,
                  .handler = [&deps, scope](const http::Request& request) {
                    return answer_bill(deps, request, scope);
                  }});
}

}  // namespace nodus::metering
