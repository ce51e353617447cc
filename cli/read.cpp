#include "cli/read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <optional>
#include <utility>

#include "cli/output.hpp"
#include "libs/http/target.hpp"

namespace nodus::cli {

namespace json = boost::json;

namespace {

constexpr size_t kMaxLine = 16 * 1024 * 1024;
constexpr int kMaxPages = 10'000;

// The lines of a watch: {"type":"ADDED","object":{…}}.
class Lines {
 public:
  enum class Fault { kNone, kNotAWatch, kExpired, kRefused };
  explicit Lines(const std::function<bool(const Change&)>& on_change) : on_change_(on_change) {}

  bool feed(std::string_view part) {  // false: nothing more is wanted
    while (!part.empty()) {
      const size_t newline = part.find('\n');
      line_ += part.substr(0, newline);
      if (line_.size() > kMaxLine) return stop(Fault::kNotAWatch);
      if (newline == std::string_view::npos) return true;
      part.remove_prefix(newline + 1);
      const bool more = take(std::exchange(line_, {}));
      if (!more) return false;
    }
    return true;
  }
  bool seen() const { return seen_; }
  Fault fault() const { return fault_; }
  bool any() const { return any_; }

 private:
  bool stop(Fault fault) {
    fault_ = fault;
    return false;
  }
  bool take(const std::string& line) {
    if (line.empty()) return true;
    boost::system::error_code wrong;
    json::value value = json::parse(line, wrong);
    const std::string type = wrong ? "" : text_at(value, "type");
    const json::value* object =
        wrong || !value.is_object() ? nullptr : value.get_object().if_contains("object");
    if (type.empty() || !object) return stop(Fault::kNotAWatch);
    if (type == "ERROR") return stop(text_at(*object, "code") == "410" ? Fault::kExpired : Fault::kRefused);
    any_ = true;
    seen_ = !on_change_(Change{type, *object});
    return !seen_;
  }

  const std::function<bool(const Change&)>& on_change_;
  std::string line_;
  Fault fault_ = Fault::kNone;
  bool seen_ = false, any_ = false;
};

std::string with_query(std::string path, const std::string& query) {
  if (query.empty()) return path;
  return path + (path.contains('?') ? "&" : "?") + query;
}

void tell_failure(Console& console, const Target& target, const json::value& object) {
  console.err << "error: " << target.text() << " is " << text_at(object, "status.phase");
  const std::string reason = text_at(object, "status.reason");
  const std::string stop_reason = text_at(object, "status.stopReason");
  if (!reason.empty() || !stop_reason.empty()) console.err << ": " << (reason.empty() ? stop_reason : reason);
  const std::string message = text_at(object, "status.message");
  if (!message.empty()) console.err << (reason.empty() && stop_reason.empty() ? ": " : ". ") << message;
  console.err << "\n";
  if (target.kind == Kind::kSandbox)
    console.err << "nodus describe sb/" << target.name << " shows what happened.\n";
}

// What a wait has seen so far, whether it was read or watched.
struct Look {
  const Waiting& waiting;
  Seen seen = Seen::kWaiting;
  json::value last;
  bool gone = false;

  bool object(const json::value& object) {  // true: look on
    last = object;
    seen = waiting.judge(object);
    return seen == Seen::kWaiting;
  }
};

}  // namespace

std::vector<json::value> items_of(const json::value& list) {
  std::vector<json::value> items;
  const json::object* object = list.if_object();
  const json::value* array = object ? object->if_contains("items") : nullptr;
  if (array && array->is_array()) items.assign(array->get_array().begin(), array->get_array().end());
  return items;
}

std::string field_selector(const std::string& field, const std::string& value) {
  return "fieldSelector=" + http::escape(field + "=" + value);
}

Result<Listed> list_all(Api& api, Kind kind, const std::string& query) {
  Listed out;
  std::string next;
  for (int page = 0; page < kMaxPages; ++page) {
    std::string path = with_query("/" + plural(kind) + "?limit=500", query);
    if (!next.empty()) path += "&continue=" + http::escape(next);
    auto answer = api.json("GET", path);
    if (!answer) return std::unexpected(std::move(answer.error()));
    for (auto& item : items_of(answer->body)) out.items.push_back(std::move(item));
    out.version = text_at(answer->body, "metadata.resourceVersion");
    next = text_at(answer->body, "metadata.continue");
    if (next.empty()) break;
  }
  return out;
}

Watched watch(Api& api, const WatchRequest& wanted, const std::function<bool(const Change&)>& on_change) {
  Lines lines(on_change);
  http::ClientRequest request;
  request.url =
      api.url(with_query("/" + plural(wanted.kind) + "?watch=true&allowWatchBookmarks=true", wanted.query));
  if (!wanted.version.empty()) request.url += "&resourceVersion=" + http::escape(wanted.version);
  request.headers.set("Accept", "application/json");
  request.total_time = std::chrono::ceil<Millis>(wanted.patience);
  request.on_body = [&](std::string_view part) { return lines.feed(part); };
  request.cancelled = [&] {
    if (wanted.waiting) wanted.waiting();
    return false;
  };
  const auto answer = api.attempt(request, Api::Line::kWatch);
  if (lines.seen()) return Watched::kSeen;
  switch (lines.fault()) {
    case Lines::Fault::kNotAWatch:
      return Watched::kUnsupported;
    case Lines::Fault::kExpired:
      return Watched::kExpired;
    case Lines::Fault::kRefused:
    case Lines::Fault::kNone:
      break;
  }
  if (answer || lines.any()) return Watched::kEnded;
  if (answer.error().reason == "Expired" || answer.error().reason == "Gone") return Watched::kExpired;
  return retryable(answer.error().code) ? Watched::kEnded : Watched::kUnsupported;
}

int wait_until(Api& api, const Waiting& waiting) {
  Console& console = api.console();
  const Target& target = waiting.target;
  const Micros begun = console.clock->boot();
  Progress progress(console, fmt::format("{} is {}; waiting for it", target.text(), waiting.doing),
                    waiting.when);
  Millis interval(100);
  bool watches = true;
  Look look{waiting};
  while (true) {
    const auto object = api.json("GET", target.path());
    if (!object) {
      look.gone = object.error().code == Code::kNotFound;
      if (look.gone && waiting.gone == Seen::kDone) return kOk;
      return report(console, object.error());
    }
    if (look.object(object->body)) {
      const Micros left = waiting.patience - (console.clock->boot() - begun);
      if (left <= Micros(0)) {
        console.err << "error: " << target.text() << " is still " << waiting.doing << "; nodus get "
                    << singular(target.kind) << "/" << target.name << " shows how far it is.\n";
        return kTimedOut;
      }
      progress.waiting();
      if (watches) {
        const auto watched = watch(api,
                                   {.kind = target.kind,
                                    .query = field_selector("metadata.name", target.name),
                                    .version = text_at(object->body, "metadata.resourceVersion"),
                                    .patience = std::min<Micros>(left, Seconds(30)),
                                    .waiting = [&] { progress.waiting(); }},
                                   [&](const Change& change) {
                                     if (change.type == "BOOKMARK") return true;
                                     if (change.type == "DELETED") return !(look.gone = true);
                                     return look.object(change.object);
                                   });
        if (look.gone) continue;  // read again: what a 404 means is decided in one place
        watches = watched != Watched::kUnsupported;
      } else {
        console.sleep(interval);
        interval = std::min(interval * 2, Millis(1'000));
      }
    }
    if (look.seen == Seen::kDone) return kOk;
    if (look.seen == Seen::kFailed) {
      tell_failure(console, target, look.last);
      return kRefused;
    }
  }
}

Ready await_ready(Api& api, const std::string& sandbox, Micros patience,
                  const std::function<void()>& waiting) {
  bool first = true, at_once = false, ready = false;
  const auto watched = watch(
      api,
      {.kind = Kind::kSandbox,
       .query = field_selector("metadata.name", sandbox),
       .version = "",
       .patience = patience,
       .waiting = waiting},
      [&](const Change& change) {
        if (change.type == "BOOKMARK") return true;
        const std::string phase = text_at(change.object, "status.phase");
        ready = change.type == "DELETED" ||
                (phase != "Pending" && phase != "Starting" && phase != "Stopping" && phase != "Recovering");
        at_once = ready && first;
        first = false;
        return !ready;
      });
  if (watched == Watched::kUnsupported) return Ready::kUnknown;
  // What was ready before it was looked at was ready when the server said that it was not: do not insist.
  return watched == Watched::kSeen && ready && !at_once ? Ready::kYes : Ready::kNo;
}

}  // namespace nodus::cli
