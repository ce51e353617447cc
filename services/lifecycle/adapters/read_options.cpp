#include "services/lifecycle/adapters/read_options.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "libs/base/random.hpp"

namespace nodus::lifecycle {

namespace {

constexpr int kMaxPage = 500;
constexpr size_t kMaxToken = 1024;
constexpr int64_t kMaxTimeoutS = 3600;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Calls `each` with every part between `separator`s.
template <class Each>
void split(std::string_view text, char separator, Each each) {
  while (true) {
    const size_t at = text.find(separator);
    each(trimmed(text.substr(0, at)));
    if (at == std::string_view::npos) return;
    text.remove_prefix(at + 1);
  }
}

// One media range of Accept, if it is one that we serve.
std::optional<Form> served(std::string_view range) {
  bool first = true;
  bool refused = false;
  std::string_view as;
  std::string_view group;
  std::string_view version;
  split(range, ';', [&](std::string_view part) {
    if (std::exchange(first, false)) {
      refused = part != "application/json" && part != "application/*" && part != "*/*";
      return;
    }
    const size_t equals = part.find('=');
    const auto value = equals == std::string_view::npos ? "" : part.substr(equals + 1);
    if (part.starts_with("as=")) as = value;
    if (part.starts_with("g=")) group = value;
    if (part.starts_with("v=")) version = value;
    if (part.starts_with("q=") && value.find_first_not_of("0.") == std::string_view::npos) refused = true;
  });
  if (refused) return std::nullopt;
  Form form;
  if (as.empty()) return form;
  if (group != "meta.k8s.io" || version != "v1") return std::nullopt;
  if (as == "Table")
    form.as = Form::As::kTable;
  else if (as == "PartialObjectMetadata" || as == "PartialObjectMetadataList")
    form.as = Form::As::kMetadata;
  else
    return std::nullopt;
  return form;
}

std::unexpected<Error> invalid(std::string message) {
  return fail(Code::kInvalid, "Invalid", std::move(message));
}

std::optional<int64_t> number(std::string_view text) {
  int64_t out = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (text.empty() || fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

Result<bool> flag(const http::Request& request, const std::string& name) {
  const auto value = request.query_value(name);
  if (!value) return false;
  for (const std::string_view yes : {"true", "1", "True", "TRUE", "t", "T"})
    if (*value == yes) return true;
  for (const std::string_view no : {"false", "0", "False", "FALSE", "f", "F", ""})
    if (*value == no) return false;
  return invalid(name + ": true or false.");
}

Result<void> read_page(const http::Request& request, ReadOptions& out) {
  if (const auto limit = request.query_value("limit"); limit && !limit->empty()) {
    const auto wanted = number(*limit);
    if (!wanted || *wanted < 0)
      return invalid("limit: a number; a page has at most 500 items, whatever is asked for.");
    if (*wanted > 0) out.query.limit = static_cast<int>(std::min<int64_t>(*wanted, kMaxPage));
  }
  const auto token = request.query_value("continue").value_or("");
  if (token.empty()) return {};
  std::string text;
  const bool decoded = token.size() <= kMaxToken && from_base64(token, text);
  const size_t slash = text.find('/');
  const auto version = decoded && slash != std::string::npos ? number(text.substr(0, slash)) : std::nullopt;
  if (!version || slash + 1 == text.size())
    return fail(
        Code::kBadRequest, "BadRequest",
        "continue: not a token of this API. Send metadata.continue of the page before, or list anew.");
  out.token_version = *version;
  out.query.after = text.substr(slash + 1);
  return {};
}

Result<void> read_version(const http::Request& request, ReadOptions& out) {
  const auto version = request.query_value("resourceVersion").value_or("");
  const auto match = request.query_value("resourceVersionMatch").value_or("");
  if (!version.empty()) {
    const auto since = number(version);
    if (!since || *since < 0)
      return invalid("resourceVersion: a metadata.resourceVersion that this API has given out, unchanged.");
    if (*since > 0) out.since = since;
  }
  if (match.empty()) return {};
  if (match != "NotOlderThan" && match != "Exact")
    return invalid("resourceVersionMatch: NotOlderThan or Exact.");
  if (out.watch && !out.initial_events)
    return invalid("resourceVersionMatch: with a watch only together with sendInitialEvents=true.");
  if (version.empty() && !out.initial_events)
    return invalid("resourceVersionMatch: only together with resourceVersion.");
  if (match == "Exact")
    return fail(Code::kBadRequest, "Expired",
                "Only the present state can be listed: leave resourceVersionMatch=Exact out.");
  return {};
}

}  // namespace

Result<Form> form_of(const http::Request& request) {
  const auto accept = request.headers.get("Accept").value_or("");
  std::optional<Form> form;
  if (trimmed(accept).empty()) form = Form{};
  split(accept, ',', [&](std::string_view range) {
    if (!form && !range.empty()) form = served(range);
  });
  if (!form)
    return fail(Code::kBadRequest, "NotAcceptable",
                "Objects are served as application/json, also with as=Table;g=meta.k8s.io;v=v1. Send such an "
                "Accept header, or none.");
  const auto include = request.query_value("includeObject").value_or("");
  if (include == "None") form->include = Form::Include::kNone;
  if (include == "Object") form->include = Form::Include::kObject;
  return *form;
}

Result<ReadOptions> read_options(const http::Request& request, const Resource& resource) {
  ReadOptions out;
  auto form = form_of(request);
  if (!form) return std::unexpected(std::move(form.error()));
  out.form = *form;
  for (auto [name, into] : {std::pair{"watch", &out.watch},
                            {"allowWatchBookmarks", &out.bookmarks},
                            {"sendInitialEvents", &out.initial_events}}) {
    auto value = flag(request, name);
    if (!value) return std::unexpected(std::move(value.error()));
    *into = *value;
  }
  if (out.initial_events && (!out.watch || request.query_value("resourceVersionMatch") != "NotOlderThan"))
    return invalid("sendInitialEvents: only with watch=true and resourceVersionMatch=NotOlderThan.");
  auto labels = parse_label_selector(request.query_value("labelSelector").value_or(""));
  if (!labels) return std::unexpected(std::move(labels.error()));
  auto fields = parse_field_selector(request.query_value("fieldSelector").value_or(""), resource.fields);
  if (!fields) return std::unexpected(std::move(fields.error()));
  out.query.selector = {std::move(*labels), std::move(*fields)};
  if (const auto sandbox = request.query_value("sandbox"); sandbox && resource.plural == "processes")
    out.query.selector.fields.push_back({"spec.sandbox", Requirement::Op::kIn, {*sandbox}});
  if (const auto timeout = request.query_value("timeoutSeconds"); timeout && !timeout->empty()) {
    const auto seconds = number(*timeout);
    if (!seconds || *seconds < 0) return invalid("timeoutSeconds: a number of seconds.");
    if (*seconds > 0) out.timeout = Seconds(std::min(*seconds, kMaxTimeoutS));
  }
  if (auto page = read_page(request, out); !page) return std::unexpected(std::move(page.error()));
  if (auto version = read_version(request, out); !version) return std::unexpected(std::move(version.error()));
  return out;
}

std::string continue_token(int64_t version, const std::string& after) {
  return to_base64(fmt::format("{}/{}", version, after));
}

}  // namespace nodus::lifecycle
