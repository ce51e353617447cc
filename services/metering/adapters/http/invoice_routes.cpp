#include "services/metering/adapters/http/invoice_routes.hpp"

#include <boost/json.hpp>
#include <charconv>

#include "libs/base/csv.hpp"
#include "services/metering/adapters/postgres/invoices.hpp"

namespace nodus::metering {

namespace json = boost::json;

namespace {

constexpr int kDefaultLimit = 100, kMaxLimit = 1'000;

Result<http::Identity> identity_of(const BillDeps& deps, const http::Request& request) {
  return http::verify_identity(request.headers.get("X-Nodus-Identity").value_or(""), deps.identity_secret,
                               deps.clock.now());
}

// Names of projects are without their organization, as in paths.
std::string name_of(const ProjectId& project) {
  return project.str().substr(project.str().find('/') + 1);
}

json::object to_json(const Invoice& invoice) {
  return {{"kind", "Invoice"},
          {"number", invoice.number},
          {"issuer", invoice.issuer},
          {"organization", invoice.org.str()},
          {"month", to_string(invoice.month)},
          {"issuedAt", to_rfc3339(invoice.issued_at)},
          {"provenTo", to_rfc3339(to_instant(invoice.proven_to_s))},
          {"currency", "USD"},
          {"total", invoice.total.to_decimal()}};
}

json::object to_json(const InvoiceLine& line) {
  return {{"type", line.type},
          {"month", to_string(line.month)},
          {"project", name_of(line.project)},
          {"kind", line.kind},
          {"reason", line.reason},
          {"seconds", line.seconds},
          {"amount", line.amount.to_decimal()}};
}

std::string to_csv(const Invoice& invoice) {
  std::string text = "Invoice,InvoiceMonth,Type,Month,Project,Kind,Reason,Seconds,Amount,Currency\r\n";
  for (const auto& line : invoice.lines) {
    for (const auto& cell : {invoice.number, to_string(invoice.month), line.type, to_string(line.month),
                             name_of(line.project), line.kind, line.reason})
      text += csv_text(cell) + ',';
    text += std::to_string(line.seconds) + ',' + line.amount.to_decimal() + ",USD\r\n";
  }
  return text;
}

struct ListQuery {
  int limit = kDefaultLimit;
  Month before = 0;
};

Result<ListQuery> list_query(const http::Request& request) {
  QueryReader in(request);
  ListQuery query;
  if (const auto text = in.take("limit")) {
    const auto [end, fine] = std::from_chars(text->data(), text->data() + text->size(), query.limit);
    if (fine != std::errc() || end != text->data() + text->size() || query.limit < 1 ||
        query.limit > kMaxLimit)
      in.fault("limit", "must be 1 to " + std::to_string(kMaxLimit));
  }
  if (const auto token = in.take("continue")) {
    const auto month = parse_month(*token);
    if (!month) in.fault("continue", "must be the \"continue\" of the page before");
    query.before = month.value_or(0);
  }
  if (auto read = in.finish("limit and continue"); !read) return std::unexpected(std::move(read.error()));
  return query;
}

}  // namespace

http::Response answer_invoices(const BillDeps& deps, const http::Request& request) {
  const auto identity = identity_of(deps, request);
  if (!identity) return http::status(identity.error());
  const auto query = list_query(request);
  if (!query) return http::status(query.error());
  const auto invoices = list_invoices(deps.pool, identity->org, query->before, query->limit + 1);
  if (!invoices) return http::status(invoices.error());
  json::array items;
  json::object list{{"kind", "InvoiceList"}};
  for (const auto& invoice : *invoices) {
    if (std::cmp_equal(items.size(), query->limit)) {
      list["continue"] = items.back().at("month");
      break;
    }
    items.push_back(to_json(invoice));
  }
  list["items"] = std::move(items);
  return http::json(200, json::serialize(list));
}

http::Response answer_invoice(const BillDeps& deps, const http::Request& request) {
  const auto identity = identity_of(deps, request);
  if (!identity) return http::status(identity.error());
  QueryReader in(request);
  const auto format = in.take("format").value_or("json");
  if (format != "json" && format != "csv") in.fault("format", "must be json or csv");
  if (auto read = in.finish("format"); !read) return http::status(read.error());
  const auto invoice = read_invoice(deps.pool, identity->org, request.params.at("number"));
  if (!invoice) return http::status(invoice.error());
  if (format == "csv") {
    http::Response answer;
    answer.headers.set("Content-Type", "text/csv; charset=utf-8");
    answer.body = to_csv(*invoice);
    return answer;
  }
  json::object out = to_json(*invoice);
  json::array lines;
  for (const auto& line : invoice->lines) lines.push_back(to_json(line));
  out["lines"] = std::move(lines);
  return http::json(200, json::serialize(out));
}

void invoice_routes(http::Server& server, const BillDeps& deps) {
  server.route({.method = "GET",
                .pattern = "/v1/organization/invoices",
                .name = "organization.invoices",
                .handler = [&deps](const http::Request& request) { return answer_invoices(deps, request); }});
  server.route({.method = "GET",
                .pattern = "/v1/organization/invoices/{number}",
                .name = "organization.invoice",
                .handler = [&deps](const http::Request& request) { return answer_invoice(deps, request); }});
}

}  // namespace nodus::metering
