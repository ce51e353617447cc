#include <boost/json.hpp>

#include <charconv>

#include "libs/http/identity.hpp"
#include "services/metering/adapters/http/budget_route.hpp"
#include "services/metering/adapters/postgres/budget_changes.hpp"
#include "services/metering/app/streams.hpp"

namespace nodus::metering {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

constexpr int kPage = 500;
constexpr int64_t kLongestWaitS = 30;
constexpr Millis kLookAgain{2'000};  // other replicas commit too

struct Asked {
  ProjectId project;
  int64_t after = 0;
  Seconds wait{0};
};

std::optional<int64_t> number(const http::Request& request, const std::string& name) {
  const auto text = request.query_value(name).value_or("0");
  int64_t out = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (fault != std::errc() || end != text.data() + text.size() || out < 0) return std::nullopt;
  return out;
}

Result<Asked> asked(const BudgetDeps& deps, const http::Request& request) {
  auto identity = http::verify_identity(request.headers.get("X-Nodus-Identity").value_or(""),
                                        deps.identity_secret, deps.clock.now());
  if (!identity) return std::unexpected(std::move(identity.error()));
  const auto after = number(request, "after");
  const auto wait = number(request, "waitSeconds");
  if (!after || !wait)
    return fail(Code::kInvalid, "Invalid", "after is a position, waitSeconds a number of seconds.");
  return Asked{identity->project, *after, Seconds(std::min(*wait, kLongestWaitS))};
}

std::string body_of(const BudgetChanges& found) {
  json::array changes;
  for (const auto& change : found.changes)
    changes.push_back({{"position", change.position},
                       {"type", change.type},
                       {"object", change.object},
                       {"was", change.was}});
  return json::serialize(json::object{
      {"changes", std::move(changes)}, {"last", found.last}, {"floor", found.floor}, {"more", found.more}});
}

}  // namespace

awaitable<void> answer_budget_changes(const BudgetDeps& deps, http::Exchange& exchange) {
  const auto what = asked(deps, exchange.request());
  if (!what) co_return co_await exchange.respond(http::status(what.error()));
  const auto stream = budget_stream(what->project);
  const Micros end = deps.clock.boot() + what->wait;
  while (true) {
    const uint64_t ticket = deps.waiters.ticket(stream);
    Result<BudgetChanges> found = fail(Code::kInternal, "InternalError", "The step did not run.");
    const auto ran = co_await exchange.run_blocking([&] {
      found = deps.pool.with_tx(
          [&](pg::Tx& tx) { return read_budget_changes(tx, what->project, what->after, kPage); });
    });
    if (!ran) found = std::unexpected(ran.error());
    if (!found) co_return co_await exchange.respond(http::status(found.error()));
    const auto left = std::chrono::ceil<Millis>(end - deps.clock.boot());
    if (!found->changes.empty() || left <= Millis(0) || exchange.peer_left())
      co_return co_await exchange.respond(http::json(200, body_of(*found)));
    co_await deps.waiters.wait(stream, ticket, std::min(left, kLookAgain));
  }
}

}  // namespace nodus::metering
