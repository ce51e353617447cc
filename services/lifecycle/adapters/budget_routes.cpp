// Budgets are metering's. Here they are objects of the API like the others: the same forms, selectors, pages,
// watches and DeleteOptions. Changes are metering's to judge; their requests are handed on.
#include "libs/http/client.hpp"
#include "libs/http/fetch.hpp"
#include "libs/http/target.hpp"
#include "services/lifecycle/adapters/metering_path.hpp"
#include "services/lifecycle/adapters/watch.hpp"
#include "services/lifecycle/adapters/write_options.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

constexpr size_t kAnswerBytes = 8 * 1024 * 1024;
constexpr size_t kDeleteBytes = 64 * 1024;
constexpr Millis kPatience{5'000};  // with metering, beyond what it was asked to wait
// A wait is not cut when this program ends, so it is shorter than the end's patience.
constexpr Seconds kLongestWait{4};
constexpr Millis kPause{1'000};  // before metering is asked again that was away

// What metering answers to a GET: its object, or its error.
awaitable<Result<json::object>> ask(Api& api, const http::Identity& caller, std::string target,
                                    Seconds wait = Seconds(0)) {
  auto upstream = metering_at(api, caller, std::move(target));
  upstream.method = "GET";
  upstream.body = "";
  upstream.idle_time = kPatience + wait;
  const auto answer = co_await http::fetch(std::move(upstream), kAnswerBytes);
  if (!answer) co_return metering_away();
  if (answer->status != 200) co_return std::unexpected(http::parse_status(*answer));
  boost::system::error_code fault;
  auto value = json::parse(answer->body, fault);
  if (fault || !value.is_object()) co_return metering_away();
  co_return std::move(value.get_object());
}

// Metering has them by name; a project has few.
Result<ObjectPage> page_of(const json::object& list, const ListQuery& query) {
  ObjectPage out;
  out.resource_version = std::stoll(std::string(list.at("metadata").at("resourceVersion").as_string()));
  for (const auto& item : list.at("items").as_array()) {
    const auto& object = item.as_object();
    const std::string name(object.at("metadata").at("name").as_string());
    if (name <= query.after || !matches(query.selector, object)) continue;
    if (out.objects.size() == static_cast<size_t>(query.limit)) {
      out.next = std::string(out.objects.back().at("metadata").at("name").as_string());
      break;
    }
    out.objects.push_back(object);
  }
  return out;
}

ChangePage changes_of(const json::object& found, const ProjectId& project) {
  ChangePage out;
  out.last = found.at("last").as_int64();
  out.floor = found.at("floor").as_int64();
  out.more = found.at("more").as_bool();
  for (const auto& item : found.at("changes").as_array()) {
    const std::string type(item.at("type").as_string());
    const std::string object(item.at("object").as_string());
    const std::string was(item.at("was").as_string());  // empty: to a selector it was what it is
    out.changes.push_back({item.at("position").as_int64(), project.str(), "budgets", type, object,
                           type == "ADDED" ? ""
                           : was.empty()   ? object
                                           : was});
  }
  return out;
}

// A long poll of metering a watch, instead of the feed of what was committed here.
class BudgetSource final : public ObjectSource {
 public:
  BudgetSource(Api& api, const http::Identity& caller) : api_(api), caller_(caller) {}

  awaitable<Result<ObjectPage>> page(const ListQuery& query) override {
    auto list = co_await ask(api_, caller_, "/v1/budgets");
    if (!list) co_return std::unexpected(std::move(list.error()));
    co_return page_of(*list, query);
  }
  awaitable<Result<ChangePage>> standing(int64_t since) override { return read(since, Seconds(0)); }
  awaitable<Result<ChangePage>> changes(int64_t after) override {
    if (heard_ && heard_after_ == after) {
      auto page = std::move(*heard_);
      heard_.reset();
      co_return page;
    }
    co_return co_await read(after, Seconds(0));
  }
  std::optional<ChangeFeed::Part> heard(int64_t) override { return std::nullopt; }
  void look() override {}
  awaitable<void> wait(int64_t after, Millis at_most) override {
    const auto wait = std::clamp(std::chrono::floor<Seconds>(at_most), Seconds(0), kLongestWait);
    heard_ = co_await read(after, wait);
    heard_after_ = after;
    const bool away = !*heard_ && retryable(heard_->error().code);
    if (!away && wait > Seconds(0)) co_return;
    const std::string nobody = "budgets/" + caller_.project.str();
    co_await api_.waiters.wait(nobody, api_.waiters.ticket(nobody), std::min(at_most, kPause));
  }

 private:
  awaitable<Result<ChangePage>> read(int64_t after, Seconds wait) {
    const auto target =
        "/v1/budget-changes?after=" + std::to_string(after) + "&waitSeconds=" + std::to_string(wait.count());
    auto found = co_await ask(api_, caller_, target, wait);
    if (!found) co_return std::unexpected(std::move(found.error()));
    co_return changes_of(*found, caller_.project);
  }

  Api& api_;
  const http::Identity caller_;
  std::optional<Result<ChangePage>> heard_;  // what the wait brought
  int64_t heard_after_ = 0;
};

awaitable<void> list_budgets(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  auto options = read_options(exchange.request(), budget_resource());
  if (!options) co_return co_await exchange.respond(http::status(options.error()));
  BudgetSource source(api, caller);
  if (options->watch)
    co_return co_await watch(api, caller, exchange, budget_resource(), std::move(*options), source);
  auto page = co_await source.page(options->query);
  co_await exchange.respond(answer(list_answer(api, budget_resource(), *options, std::move(page))));
}

awaitable<void> get_budget(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  const auto form = form_of(exchange.request());
  if (!form) co_return co_await exchange.respond(http::status(form.error()));
  auto found = co_await ask(api, caller, "/v1/budgets/" + http::escape(exchange.request().params.at("name")));
  if (!found) co_return co_await exchange.respond(http::status(found.error()));
  co_await exchange.respond(http::json(
      200, json::serialize(in_form(budget_resource(), *form, std::move(*found), true, api.clock.now()))));
}

awaitable<void> delete_budget(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  auto body = co_await exchange.read_body(kDeleteBytes);
  if (!body) co_return co_await exchange.respond(http::status(body.error()));
  http::Request request = exchange.request();
  request.body = std::move(*body);
  const auto options = delete_options(request);
  if (!options) co_return co_await exchange.respond(http::status(options.error()));
  std::string query;
  const auto add = [&](const char* name, const std::string& value) {
    query += (query.empty() ? "?" : "&") + std::string(name) + "=" + http::escape(value);
  };
  if (options->dry_run) add("dryRun", "All");
  if (options->precondition.uid) add("uid", *options->precondition.uid);
  if (options->precondition.resource_version)
    add("resourceVersion", std::to_string(*options->precondition.resource_version));
  auto upstream = metering_at(api, caller, "/v1/budgets/" + http::escape(request.params.at("name")) + query);
  upstream.body = "";
  if (const auto key = request.headers.get("Idempotency-Key")) upstream.headers.set("Idempotency-Key", *key);
  if (const auto passed = co_await exchange.proxy(std::move(upstream)); passed) co_return;
  co_await exchange.respond(http::status(metering_away().error()));
}

}  // namespace

awaitable<Result<int64_t>> count_budgets(Api& api, const http::Identity& caller) {
  const auto list = co_await ask(api, caller, "/v1/budgets");
  if (!list) co_return std::unexpected(list.error());
  co_return static_cast<int64_t>(list->at("items").as_array().size());
}

std::vector<PublicRoute> budget_routes() {
  const auto row = [](std::string method, std::string verb, Right right, Effect effect,
                      StreamHandler handler) {
    const bool whole = verb == "list" || verb == "create";
    return PublicRoute{
        .method = std::move(method),
        .pattern = std::string("/apis/nodus.dev/v1/namespaces/{project}/budgets") + (whole ? "" : "/{name}"),
        .name = "budgets." + verb,
        .right = right,
        .effect = effect,
        .stream = handler};
  };
  return {row("GET", "list", Right::kRead, Effect::kReads, list_budgets),
          row("GET", "get", Right::kRead, Effect::kReads, get_budget),
          row("POST", "create", Right::kBill, Effect::kChanges, forward_to_metering),
          row("PUT", "replace", Right::kBill, Effect::kChanges, forward_to_metering),
          row("PATCH", "patch", Right::kBill, Effect::kChanges, forward_to_metering),
          row("DELETE", "delete", Right::kBill, Effect::kRemoves, delete_budget)};
}

}  // namespace nodus::lifecycle
