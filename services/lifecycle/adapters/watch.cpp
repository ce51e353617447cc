#include "services/lifecycle/adapters/watch.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "libs/base/random.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

constexpr size_t kWriteBytes = 32 * 1024;

Error expired() {
  return {
      Code::kBadRequest,
      "Expired",
      "The changes after this resourceVersion are not kept any more. List again, and watch from the list's "
      "resourceVersion.",
      {},
      {},
      {}};
}

std::string line(std::string_view type, std::string_view object) {
  return fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", type, object);
}

class Watch {
 public:
  Watch(Api& api, const http::Identity& caller, http::Exchange& exchange, const Resource& resource,
        ReadOptions options, ObjectSource& source)
      : api_(api),
        caller_(caller),
        exchange_(exchange),
        resource_(resource),
        options_(std::move(options)),
        source_(source),
        key_(ChangeFeed::key(caller.project.str(), std::string(resource.plural))) {}

  awaitable<void> run() {
    auto seat = api_.feed.seat(caller_.org.str(), key_);
    if (!seat) {
      const Error full{
          Code::kTooManyRequests, "TooManyRequests", "Too many watches are open. Close some.", {}, 5, {}};
      co_return co_await exchange_.respond(http::status(full));
    }
    const Micros longest =
        options_.timeout ? Micros(*options_.timeout) : jittered(api_.feed.options().longest);
    end_ = api_.clock.boot() + longest;
    next_bookmark_ = api_.clock.boot() + api_.feed.options().bookmark;
    next_check_ = api_.clock.boot() + api_.feed.options().check;
    const bool started = options_.since && !options_.initial_events ? co_await start_at(*options_.since)
                                                                    : co_await start_with_all();
    if (!started) co_return;
    co_await follow();
    if (open_) co_await exchange_.finish();
  }

 private:
  static Micros jittered(Seconds longest) {
    const auto half = Micros(longest) / 2;
    return half + Micros(static_cast<int64_t>(random_below(static_cast<uint64_t>(half.count()) + 1)));
  }

  awaitable<bool> begin() {
    http::Headers headers;
    headers.set("Content-Type", "application/json");
    headers.set("Cache-Control", "no-cache, private");
    open_ = (co_await exchange_.begin(200, std::move(headers))).has_value();
    co_return open_;
  }

  awaitable<bool> start_at(int64_t since) {
    auto page = co_await source_.standing(since);
    if (page && (since < page->floor || since > page->last)) page = std::unexpected(expired());
    if (!page) {
      co_await exchange_.respond(http::status(page.error()));
      co_return false;
    }
    cursor_ = since;
    co_return co_await begin();
  }

  awaitable<bool> start_with_all() {
    ListQuery query = options_.query;
    query.after.clear();
    while (true) {
      auto page = co_await source_.page(query);
      if (!page && !open_) {
        co_await exchange_.respond(http::status(page.error()));
        co_return false;
      }
      if (!page) {
        co_await fail_with(page.error());
        co_return false;
      }
      if (!open_) {
        cursor_ = page->resource_version;
        if (!co_await begin()) co_return false;
      }
      std::string text;
      for (auto& object : page->objects) {
        listed_ = std::string(object.at("metadata").as_object().at("name").as_string());
        text += line("ADDED", shown(std::move(object)));
      }
      listed_pages_.emplace_back(listed_, page->resource_version);
      if (!co_await write(std::move(text))) co_return false;
      query.after = page->next;
      if (query.after.empty()) break;
    }
    if (options_.initial_events) co_return co_await write(bookmark(true));
    co_return true;
  }

  // Everything that happens until the end of the watch.
  awaitable<void> follow() {
    while (open_ && !api_.feed.closing()) {
      source_.look();
      if (!co_await take()) co_return;
      const Micros now = api_.clock.boot();
      if (now >= end_) break;
      if (now >= next_check_ && !co_await check()) co_return;
      if (options_.bookmarks && now >= next_bookmark_) {
        next_bookmark_ = now + api_.feed.options().bookmark;
        if (!co_await write(bookmark(false))) co_return;
      }
      const Micros until =
          std::min(end_, options_.bookmarks ? std::min(next_check_, next_bookmark_) : next_check_);
      const auto wait = std::chrono::ceil<Millis>(until - api_.clock.boot());
      if (wait > Millis(0)) co_await source_.wait(cursor_, wait);
    }
    if (open_ && options_.bookmarks) co_await write(bookmark(false));
  }

  // What happened since, from memory or, for who is further behind, from where it is kept.
  awaitable<bool> take() {
    while (true) {
      if (auto part = source_.heard(cursor_)) {
        cursor_ = part->cursor;
        co_return co_await tell(part->changes);
      }
      auto page = co_await source_.changes(cursor_);
      if (page && cursor_ < page->floor) page = std::unexpected(expired());
      if (!page && retryable(page.error().code)) co_return true;  // away for a while: after the wait
      if (!page) {
        co_await fail_with(page.error());
        co_return false;
      }
      std::vector<HeardPtr> heard;
      for (auto& change : page->changes)
        if (auto parsed = parse_change(std::move(change))) heard.push_back(std::move(*parsed));
      cursor_ = page->last;
      if (!co_await tell(heard)) co_return false;
      if (!page->more) co_return true;
    }
  }

  awaitable<bool> tell(const std::vector<HeardPtr>& changes) {
    std::string text;
    for (const auto& heard : changes) {
      if (known_from_list(*heard)) continue;
      const auto type = verdict(options_.query.selector, heard->change.type, heard->object, heard->was);
      if (type.empty()) continue;
      const bool plain = options_.form.as == Form::As::kObject;
      text += line(type, plain ? heard->change.object : shown(heard->object));
      if (text.size() >= kWriteBytes && !co_await write(std::exchange(text, {}))) co_return false;
    }
    co_return co_await write(std::move(text));
  }

  // The list that began this watch was read page by page: what a later page showed already is not told again.
  bool known_from_list(const Heard& heard) const {
    if (listed_pages_.empty() || heard.change.position > listed_pages_.back().second) return false;
    const auto* name = heard.object.at("metadata").as_object().if_contains("name");
    const auto page = std::ranges::find_if(
        listed_pages_, [&](const auto& one) { return std::string_view(name->as_string()) <= one.first; });
    const int64_t version = page == listed_pages_.end() ? listed_pages_.back().second : page->second;
    return resource_.plural != "processes" && heard.change.position <= version;
  }

  // Is the client still there, and its key still in force?
  awaitable<bool> check() {
    next_check_ = api_.clock.boot() + api_.feed.options().check;
    if (exchange_.peer_left()) {
      open_ = false;
      co_return false;
    }
    auto again = co_await blocking<ProjectId>(exchange_, [&]() -> Result<ProjectId> {
      auto holder = api_.keys.find(exchange_.request().headers.get("Authorization").value_or(""));
      if (!holder) return std::unexpected(std::move(holder.error()));
      return api_.keys.project(*holder, exchange_.request().params.at("project"));
    });
    if (again || retryable(again.error().code)) co_return true;
    co_await fail_with(again.error());
    co_return false;
  }

  std::string shown(json::object object) {
    return json::serialize(in_form(resource_, options_.form, std::move(object),
                                   !std::exchange(columns_sent_, true), api_.clock.now()));
  }

  std::string bookmark(bool initial_end) {
    json::object metadata{{"resourceVersion", std::to_string(cursor_)}, {"creationTimestamp", nullptr}};
    if (initial_end) metadata["annotations"] = {{"k8s.io/initial-events-end", "true"}};
    json::object object{
        {"kind", resource_.kind}, {"apiVersion", resource_.api_version}, {"metadata", std::move(metadata)}};
    if (options_.form.as == Form::As::kTable)
      object = {{"kind", "Table"},
                {"apiVersion", "meta.k8s.io/v1"},
                {"metadata", object.at("metadata")},
                {"columnDefinitions", json::array()},
                {"rows", json::array()}};
    return line("BOOKMARK", json::serialize(object));
  }

  awaitable<bool> write(std::string text) {
    if (!text.empty()) open_ = (co_await exchange_.write(text)).has_value();
    co_return open_;
  }

  // The end that a client can read: an ERROR event with a Status.
  awaitable<void> fail_with(Error error) {
    std::string status = http::status(error).body;
    while (!status.empty() && status.back() == '\n') status.pop_back();
    if (co_await write(line("ERROR", status))) co_await exchange_.finish();
    open_ = false;
  }

  Api& api_;
  const http::Identity caller_;
  http::Exchange& exchange_;
  const Resource& resource_;
  const ReadOptions options_;
  ObjectSource& source_;
  const std::string key_;  // of its seat
  int64_t cursor_ = 0;     // everything up to here was told
  std::string listed_;
  std::vector<std::pair<std::string, int64_t>> listed_pages_;  // last name, position
  Micros end_{0};
  Micros next_bookmark_{0};
  Micros next_check_{0};
  bool open_ = false;
  bool columns_sent_ = false;
};

}  // namespace

std::string_view verdict(const Selector& selector, const std::string& type, const json::object& object,
                         const json::object& was) {
  const bool now = type != "DELETED" && matches(selector, object);
  const bool before = type != "ADDED" && matches(selector, was);
  if (now) return before ? "MODIFIED" : "ADDED";
  return before ? "DELETED" : "";
}

awaitable<void> watch(Api& api, const http::Identity& caller, http::Exchange& exchange,
                      const Resource& resource, ReadOptions options, ObjectSource& source) {
  Watch one(api, caller, exchange, resource, std::move(options), source);
  co_await one.run();
}

}  // namespace nodus::lifecycle
