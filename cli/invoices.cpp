#include "cli/invoices.hpp"

#include <algorithm>

#include "cli/bill.hpp"
#include "cli/output.hpp"
#include "cli/read.hpp"
#include "libs/http/target.hpp"

namespace nodus::cli {

namespace json = boost::json;

namespace {

bool is_kind(std::string_view word) {
  return word == "invoices" || word == "invoice" || word == "inv";
}

// The numbers asked for; none: all.
std::vector<std::string> numbers_of(const std::vector<std::string>& words) {
  std::vector<std::string> numbers;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t slash = words[i].find('/');
    if (slash != std::string::npos) numbers.push_back(words[i].substr(slash + 1));
    if (slash == std::string::npos && i > 0) numbers.push_back(words[i]);
  }
  return numbers;
}

Result<std::vector<json::value>> list_invoices(Api& api, const std::string& url) {
  std::vector<json::value> all;
  std::string next;
  do {
    const auto answer = api.json_at("GET", url + (next.empty() ? "" : "?continue=" + http::escape(next)));
    if (!answer) return std::unexpected(answer.error());
    for (auto& item : items_of(answer->body)) all.push_back(std::move(item));
    next = text_at(answer->body, "continue");
  } while (!next.empty());
  return all;
}

std::string dash(std::string text) {
  return text.empty() ? "-" : one_line(std::move(text));
}

void print_sheet(Console& console, const json::value& invoice) {
  std::vector<std::vector<std::string>> sheet;
  for (const auto& [name, path] : {std::pair{"Number:", "number"},
                                   {"Organization:", "organization"},
                                   {"Month:", "month"},
                                   {"Issued:", "issuedAt"},
                                   {"Open until:", "provenTo"},
                                   {"Currency:", "currency"}})
    sheet.push_back({name, dash(text_at(invoice, path))});
  std::vector<std::vector<std::string>> rows{
      {"TYPE", "MONTH", "PROJECT", "KIND", "REASON", "SECONDS", "AMOUNT"}};
  if (const json::value* lines = value_at(invoice, "lines"); lines && lines->is_array())
    for (const json::value& line : lines->get_array()) {
      std::vector<std::string> row;
      for (const char* path : {"type", "month", "project", "kind", "reason", "seconds", "amount"})
        row.push_back(dash(text_at(line, path)));
      rows.push_back(std::move(row));
    }
  rows.push_back({"TOTAL", "", "", "", "", "", dash(text_at(invoice, "total"))});
  console.out << format_table(sheet) << "\n" << format_table(rows);
}

}  // namespace

bool about_invoices(const std::vector<std::string>& words) {
  return !words.empty() && is_kind(words.front().substr(0, words.front().find('/')));
}

int get_invoices(Api& api, const GetFlags& flags) {
  Console& console = api.console();
  if (flags.watch || !flags.selector.empty() || !flags.field_selector.empty() || !flags.sandbox.empty())
    return usage_error(console, "Invoices are not watched or selected; give numbers, or none.");
  const auto own = organization_path(api);
  if (!own) return report(console, own.error());
  const std::string url = api.root() + *own + "/invoices";
  std::vector<json::value> found;
  const auto numbers = numbers_of(flags.words);
  if (numbers.empty()) {
    auto all = list_invoices(api, url);
    if (!all) return report(console, all.error());
    found = std::move(*all);
  }
  for (const auto& number : numbers) {
    auto answer = api.json_at("GET", url + "/" + http::escape(number));
    if (!answer) return report(console, answer.error());
    found.push_back(std::move(answer->body));
  }
  if (flags.output == "json" || flags.output == "yaml") {
    const json::value value =
        numbers.size() == 1
            ? found.front()
            : json::value{{"kind", "InvoiceList"}, {"items", json::array(found.begin(), found.end())}};
    console.out << (flags.output == "json" ? to_pretty_json(value) : to_yaml(value));
    return kOk;
  }
  std::vector<std::vector<std::string>> rows{{"NUMBER", "MONTH", "TOTAL", "CURRENCY", "ISSUED"}};
  for (const auto& invoice : found) {
    if (flags.output == "name") console.out << "invoice/" << text_at(invoice, "number") << "\n";
    std::vector<std::string> row;
    for (const char* path : {"number", "month", "total", "currency", "issuedAt"})
      row.push_back(dash(text_at(invoice, path)));
    rows.push_back(std::move(row));
  }
  if (flags.output == "name") return kOk;
  if (found.empty())
    console.err << "There are no invoices yet.\n";
  else
    console.out << format_table(rows);
  return kOk;
}

int describe_invoices(Api& api, const std::vector<std::string>& words) {
  Console& console = api.console();
  const auto numbers = numbers_of(words);
  if (numbers.empty())
    return usage_error(console, "Give the number of an invoice, such as invoice/NODUS-00000001.");
  const auto own = organization_path(api);
  if (!own) return report(console, own.error());
  for (const auto& number : numbers) {
    const auto answer = api.json_at("GET", api.root() + *own + "/invoices/" + http::escape(number));
    if (!answer) return report(console, answer.error());
    if (&number != &numbers.front()) console.out << "\n";
    print_sheet(console, answer->body);
  }
  return kOk;
}

}  // namespace nodus::cli
