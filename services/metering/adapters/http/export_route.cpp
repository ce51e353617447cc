#include "services/metering/adapters/http/export_route.hpp"

#include <fmt/format.h>

#include "services/metering/adapters/http/export_format.hpp"

namespace nodus::metering {

using boost::asio::awaitable;

namespace {

struct ExportQuery {
  OrgId org;
  Month month = 0;
  ExportFormat format = ExportFormat::kCsv;
};

Result<ExportQuery> query_of(const BillDeps& deps, const http::Request& request) {
  const auto identity = http::verify_identity(request.headers.get("X-Nodus-Identity").value_or(""),
                                              deps.identity_secret, deps.clock.now());
  if (!identity) return std::unexpected(identity.error());
  QueryReader in(request);
  ExportQuery query{.org = identity->org};
  const auto month = parse_month(in.take("month").value_or(""));
  if (!month) in.fault("month", "must be a month such as 2026-11");
  query.month = month.value_or(0);
  const auto format = in.take("format").value_or("csv");
  if (format != "csv" && format != "focus-1.2") in.fault("format", "must be csv or focus-1.2");
  if (format == "focus-1.2") query.format = ExportFormat::kFocus;
  if (auto read = in.finish("month and format"); !read) return std::unexpected(std::move(read.error()));
  return query;
}

awaitable<void> send_pages(const ExportQuery& query, ExportOf of, ExportReader& reader,
                           http::Exchange& exchange) {
  Result<std::string> page = fail(Code::kInternal, "InternalError", "The page was not read.");
  bool more = true;
  const auto read = [&] {
    const auto rows = reader.next();
    if (!rows) {
      page = std::unexpected(rows.error());
      return;
    }
    of.invoice = reader.invoice();
    more = !rows->empty();
    std::string text;
    for (const auto& row : *rows) add_row(query.format, of, row, text);
    page = std::move(text);
  };
  // The first page comes before the answer begins, so that a fault is told as one; later, the body is cut
  // off.
  bool begun = false;
  while (more) {
    if (auto ran = co_await exchange.run_blocking(read); !ran) page = std::unexpected(ran.error());
    if (!page) {
      if (!begun) co_await exchange.respond(http::status(page.error()));
      co_return;
    }
    if (!begun) {
      http::Headers headers;
      headers.set("Content-Type", "text/csv; charset=utf-8");
      headers.set("Content-Disposition",
                  fmt::format("attachment; filename=\"{}-{}.csv\"", query.org.str(), to_string(query.month)));
      headers.set("X-Content-Type-Options", "nosniff");
      if (!co_await exchange.begin(200, std::move(headers))) co_return;
      begun = true;
      *page = export_head(query.format) + *page;
    }
    if (!page->empty() && !co_await exchange.write(*page)) co_return;
  }
  co_await exchange.finish();
}

awaitable<void> export_month(const BillDeps& deps, http::Exchange& exchange) {
  const auto query = query_of(deps, exchange.request());
  if (!query) {
    co_await exchange.respond(http::status(query.error()));
    co_return;
  }
  ExportReader reader(deps.pool, query->org, query->month, deps.clock.now());
  co_await send_pages(*query, {query->org, query->month, deps.issuer, ""}, reader, exchange);
  (void)co_await exchange.run_blocking([&] { reader.wait(); });
}

}  // namespace

void export_routes(http::Server& server, const BillDeps& deps) {
  server.route({.method = "GET",
                .pattern = "/v1/organization/export",
                .name = "organization.export",
                .handler = {},
                .stream = [&deps](http::Exchange& exchange) { return export_month(deps, exchange); },
                .body_bytes = {}});
}

}  // namespace nodus::metering
