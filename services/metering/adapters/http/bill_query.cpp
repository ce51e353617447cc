#include "services/metering/adapters/http/bill_query.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "services/metering/app/calendar.hpp"

namespace nodus::metering {

namespace {

constexpr int kMaxLimit = 1'000;
constexpr size_t kMaxName = 253;
constexpr MoneySecond kFirst = 0, kLast = 253'402'300'800;  // 1970 to the end of 9999

constexpr std::array kGroups{BillBy::kLine, BillBy::kProject, BillBy::kSandbox, BillBy::kDay,
                             BillBy::kReason};
constexpr std::string_view kByLabel = "label:";
constexpr size_t kMaxLabel = 317, kMaxLabels = 16;  // a key with its prefix

void read_span(QueryReader& in, BillQuery& query) {
  const auto month = in.take("month");
  const auto from = in.take("from");
  const auto to = in.take("to");
  if (month && (from || to)) return in.fault("month", "is a span of its own; leave \"from\" and \"to\" out");
  if (month) {
    const auto read = parse_month(*month);
    if (!read) return in.fault("month", "must be a month such as 2026-11");
    query.from_s = begin_of(*read);
    query.to_s = end_of(*read);
    return;
  }
  constexpr const char* kInstant =
      "must be a date or an instant in UTC, such as 2026-11-30 or 2026-11-30T12:00:00Z";
  if (from) {
    const auto second = parse_second(*from);
    if (!second) return in.fault("from", kInstant);
    query.from_s = *second;
  }
  if (to) {
    query.to_s = parse_second(*to);
    if (!query.to_s) return in.fault("to", kInstant);
    if (*query.to_s <= query.from_s) in.fault("to", "must be after \"from\"");
  }
}

bool is_label(std::string_view text) {
  const auto fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '/';
  };
  return text.size() <= kMaxLabel && std::ranges::all_of(text, fine);
}

void read_by(QueryReader& in, BillQuery& query) {
  const auto by = in.take("by");
  if (!by) return;
  if (const auto found = std::ranges::find(kGroups, *by, [](BillBy b) { return to_string(b); });
      found != kGroups.end()) {
    query.by = *found;
    return;
  }
  query.label = by->starts_with(kByLabel) ? by->substr(kByLabel.size()) : "";
  if (query.label.empty() || !is_label(query.label))
    return in.fault("by", "must be line, project, sandbox, day, reason or label:KEY");
  query.by = BillBy::kLabel;
}

// "team=web,tier=db": all of them.
void read_labels(QueryReader& in, BillQuery& query) {
  const auto text = in.take("label");
  if (!text) return;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string_view pair = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const size_t equals = pair.find('=');
    const std::string_view key = pair.substr(0, equals);
    if (equals == std::string_view::npos || key.empty() || !is_label(key) ||
        !is_label(pair.substr(equals + 1)))
      return in.fault("label", "must be KEY=VALUE, more than one with commas between them");
    query.labels[std::string(key)] = pair.substr(equals + 1);
  }
  if (query.labels.empty() || query.labels.size() > kMaxLabels) in.fault("label", "must be 1 to 16 labels");
}

void read_limit(QueryReader& in, BillQuery& query) {
  const auto text = in.take("limit");
  if (!text) return;
  const auto [end, fine] = std::from_chars(text->data(), text->data() + text->size(), query.limit);
  if (fine != std::errc() || end != text->data() + text->size() || query.limit < 1 || query.limit > kMaxLimit)
    in.fault("limit", "must be 1 to " + std::to_string(kMaxLimit));
}

}  // namespace

std::optional<std::string> QueryReader::take(const std::string& name) {
  const auto [first, last] = query_.equal_range(name);
  if (first == last) return std::nullopt;
  if (std::next(first) != last) fault(name, "is given more than once");
  std::string value = first->second;
  query_.erase(first, last);
  return value;
}

void QueryReader::fault(std::string field, std::string message) {
  causes_.push_back({std::move(field), "FieldValueInvalid", std::move(message)});
}

Result<void> QueryReader::finish(const std::string& known) {
  for (auto it = query_.begin(); it != query_.end(); it = query_.upper_bound(it->first))
    fault(it->first, "is unknown; there are " + known);
  if (causes_.empty()) return {};
  Error error{Code::kBadRequest, "BadRequest", "The query has faults: "};
  for (const auto& cause : causes_) {
    if (&cause != &causes_.front()) error.message += "; ";
    error.message += "\"" + cause.field.substr(0, 80) + "\" " + cause.message;
  }
  error.message += ".";
  error.causes = std::move(causes_);
  return std::unexpected(std::move(error));
}

std::optional<MoneySecond> parse_second(std::string_view text) {
  if (const auto month = parse_month(text)) return begin_of(*month);
  if (const auto day = parse_day(text)) return *day * kDaySeconds;
  const auto at = parse_rfc3339(text);
  if (!at) return std::nullopt;
  const auto second = to_money_second(*at);
  if (second < kFirst || second > kLast) return std::nullopt;
  return second;
}

Result<BillQuery> read_bill_query(const http::Request& request, const http::Identity& identity,
                                  BillScope scope) {
  BillQuery query;
  query.org = identity.org;
  QueryReader in(request);
  if (scope == BillScope::kProject) {
    query.project = identity.project;
  } else if (const auto project = in.take("project")) {
    if (project->empty() || project->size() > kMaxName) in.fault("project", "must be the name of a project");
    query.project = ProjectId(identity.org.str() + "/" + *project);
  }
  if (const auto sandbox = in.take("sandbox")) {
    if (sandbox->empty() || sandbox->size() > kMaxName) in.fault("sandbox", "must be the name of a Sandbox");
    query.sandbox = *sandbox;
  }
  read_by(in, query);
  read_labels(in, query);
  read_span(in, query);
  read_limit(in, query);
  query.after = in.take("continue").value_or("");
  std::string known = "by, from, to, month, sandbox, label, limit and continue";
  if (scope == BillScope::kOrganization) known = "project, " + known;
  if (auto read = in.finish(known); !read) return std::unexpected(std::move(read.error()));
  return query;
}

}  // namespace nodus::metering
