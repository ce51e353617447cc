#include "services/metering/adapters/http/budget_route.hpp"

#include "libs/base/random.hpp"
#include "libs/eventlog/aggregate.hpp"
#include "libs/http/identity.hpp"
#include "libs/http/json_body.hpp"
#include "services/metering/adapters/http/budget_object.hpp"
#include "services/metering/adapters/postgres/budget_changes.hpp"
#include "services/metering/app/streams.hpp"

namespace nodus::metering {

namespace json = boost::json;

namespace {

constexpr size_t kMaxIdempotencyKey = 128;
constexpr size_t kMaxBody = 64 * 1024;
constexpr int kPatches = 5;  // a patch whose object changed meanwhile is made anew so often

struct Call {
  const BudgetDeps& deps;
  const http::Request& request;
  http::Identity caller;
  Instant now;

  std::string name() const {
    const auto found = request.params.find("name");
    return found == request.params.end() ? "" : found->second;
  }
};

std::unexpected<Error> no_such(const std::string& name) {
  return fail(Code::kNotFound, "NotFound", "There is no Budget \"" + name + "\" in this project.");
}

Result<BudgetsSeen> read(const Call& call) {
  return call.deps.pool.with_tx(
      [&](pg::Tx& tx) { return see_budgets(tx, call.caller.org, call.caller.project); });
}

Result<http::Response> show(const Call& call, const std::string& name, int status) {
  const auto seen = read(call);
  if (!seen) return std::unexpected(seen.error());
  const auto* budget = budget::find(seen->state, name);
  if (budget == nullptr) return no_such(name);
  return http::json(status,
                    json::serialize(to_json(seen->state, *budget, call.now, seen->position_of(name))));
}

// All of them, by name: a project has few. Pages, selectors and forms are made where the API is served.
Result<http::Response> list(const Call& call) {
  const auto seen = read(call);
  if (!seen) return std::unexpected(seen.error());
  json::array items;
  for (const auto& budget : seen->state.budgets)
    items.push_back(to_json(seen->state, budget, call.now, seen->position_of(budget.name)));
  return http::json(200, json::serialize(json::object{
                             {"apiVersion", "nodus.dev/v1"},
                             {"kind", "BudgetList"},
                             {"metadata", json::object{{"resourceVersion", std::to_string(seen->last)}}},
                             {"items", std::move(items)}}));
}

Result<json::value> body_of(const Call& call) {
  auto object = http::parse_json_object(call.request.body);
  if (!object) return std::unexpected(std::move(object.error()));
  return json::value(std::move(*object));
}

Result<bool> dry_run(const Call& call) {
  const auto given = call.request.query_value("dryRun");
  if (!given) return false;
  if (*given == "All") return true;
  return fail(Code::kInvalid, "Invalid", "dryRun takes All only.");
}

struct Expected {  // the object as the caller knows it; what is absent is not checked
  std::string name;
  std::string uid;
  std::optional<int64_t> version;
};

// In the decision's transaction, which holds the project's head: nothing changes in between.
Result<void> check(eventlog::Unit& unit, const ProjectId& project, const Expected& expected) {
  if (expected.uid.empty() && !expected.version) return {};
  const auto stream = budget_stream(project);
  const auto state = eventlog::load<Budgets, Budgets>(unit, stream);
  if (!state) return std::unexpected(state.error());
  const auto* budget = budget::find(*state, expected.name);
  if (budget == nullptr) return no_such(expected.name);
  if (!expected.uid.empty() && expected.uid != budget->uid)
    return fail(Code::kConflict, "Conflict",
                "Budget \"" + expected.name + "\" is another one than you name: its uid is " + budget->uid +
                    ". Read it again.");
  const auto rows = unit.sql()->exec_params(
      "SELECT position FROM budget_versions WHERE project = $1 AND name = $2", project.str(), expected.name);
  const int64_t version = rows.empty() ? 1 : rows[0][0].as<int64_t>();
  if (expected.version && *expected.version != version)
    return fail(
        Code::kConflict, "Conflict",
        "Budget \"" + expected.name +
            "\" was changed since you read it. Read it again, and send your change to what it is now.");
  return {};
}

// Decides, and keeps it unless it is a dry run. "done": something changed.
Result<std::string> apply(const Call& call, const BudgetCommand& command, Expected expected) {
  const auto dry = dry_run(call);
  if (!dry) return std::unexpected(dry.error());
  const auto key = call.request.headers.get("Idempotency-Key").value_or("");
  if (key.size() > kMaxIdempotencyKey)
    return fail(Code::kBadRequest, "BadRequest", "An Idempotency-Key has at most 128 bytes.");
  auto work = call.deps.works.on_budget(command, !*dry);
  work.decide = [decide = std::move(work.decide), project = call.caller.project,
                 expected = std::move(expected)](eventlog::Unit& unit) -> Result<std::string> {
    if (auto fits = check(unit, project, expected); !fits) return std::unexpected(std::move(fits.error()));
    return decide(unit);
  };
  if (!key.empty() && !*dry) {
    work.key = "budget/" + call.caller.org.str() + "/" + sha256_hex(key);
    work.input_hash = sha256_hex(call.request.method + "\n" + call.caller.project.str() + "\n" + call.name() +
                                 "\n" + call.request.body);
  }
  return std::move(call.deps.log.run(std::vector{std::move(work)}).front());
}

Result<std::optional<int64_t>> version_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
    return fail(Code::kInvalid, "Invalid", "metadata.resourceVersion is not one that a Budget gave.");
  return std::stoll(text);
}

Result<http::Response> put(const Call& call, const json::value& object, bool create) {
  const auto manifest = read_budget(object, call.caller.project);
  if (!manifest) return std::unexpected(manifest.error());
  if (!create && manifest->name != call.name())
    return fail(Code::kInvalid, "Invalid",
                "metadata.name is not the name of the path; a name cannot change.");
  Expected expected{manifest->name, "", {}};
  if (!create) {
    const auto version = version_of(manifest->resource_version);
    if (!version) return std::unexpected(version.error());
    expected = {manifest->name, manifest->uid, *version};
  }
  const auto done =
      apply(call,
            PutBudget{call.caller.org, call.caller.project, manifest->name, random_uuid(), manifest->spec,
                      "key/" + call.caller.key_id, create, std::nullopt, "", manifest->metadata},
            std::move(expected));
  if (!done) return std::unexpected(done.error());
  if (call.request.query_value("dryRun")) {  // as it would be
    const auto seen = read(call);
    if (!seen) return std::unexpected(seen.error());
    const auto* existing = budget::find(seen->state, manifest->name);
    budget::Budget budget = existing != nullptr ? *existing : budget::Budget{};
    if (existing == nullptr) budget.created_at = call.now;
    if (budget.spec != manifest->spec || existing == nullptr) ++budget.generation;
    budget.name = manifest->name;
    budget.spec = manifest->spec;
    if (existing == nullptr || !create) budget.metadata = manifest->metadata;
    return http::json(create && *done == "done" ? 201 : 200,
                      json::serialize(to_json(seen->state, budget, call.now)));
  }
  return show(call, manifest->name, create && *done == "done" ? 201 : 200);
}

// RFC 7396: members of `patch` replace those of `target`, null removes, objects are merged.
void merge(json::value& target, const json::value& patch) {
  if (!patch.is_object()) {
    target = patch;
    return;
  }
  if (!target.is_object()) target = json::object();
  auto& object = target.get_object();
  for (const auto& [key, value] : patch.get_object()) {
    if (value.is_null())
      object.erase(key);
    else
      merge(object[key], value);
  }
}

Result<http::Response> patch(const Call& call) {
  auto type = call.request.headers.get("Content-Type").value_or("");
  if (type.substr(0, type.find_first_of("; ")) != "application/merge-patch+json")
    return fail(Code::kBadRequest, "UnsupportedMediaType", "Send an application/merge-patch+json.");
  const auto given = body_of(call);
  if (!given) return std::unexpected(given.error());
  Result<http::Response> answer = no_such(call.name());
  for (int turn = 0; turn < kPatches; ++turn) {
    const auto seen = read(call);
    if (!seen) return std::unexpected(seen.error());
    const auto* budget = budget::find(seen->state, call.name());
    if (budget == nullptr) return no_such(call.name());
    json::value object = to_json(seen->state, *budget, call.now, seen->position_of(call.name()));
    object.get_object().erase("status");
    merge(object, *given);
    answer = put(call, object, false);
    if (answer || answer.error().reason != "Conflict") return answer;
  }
  return answer;
}

// Preconditions come in the query: whoever serves the API has read the DeleteOptions.
Result<http::Response> remove(const Call& call) {
  const auto version = version_of(call.request.query_value("resourceVersion").value_or(""));
  if (!version) return std::unexpected(version.error());
  const auto before = show(call, call.name(), 200);
  if (!before && call.request.headers.get("Idempotency-Key").value_or("").empty())
    return std::unexpected(before.error());
  const auto done = apply(
      call, DeleteBudget{call.caller.org, call.caller.project, call.name(), "key/" + call.caller.key_id},
      {call.name(), call.request.query_value("uid").value_or(""), *version});
  if (!done) return std::unexpected(done.error());
  if (before) return before;
  return http::json(200, R"({"kind":"Status","apiVersion":"v1","status":"Success"})");
}

Result<http::Response> answer(const Call& call) {
  const auto& method = call.request.method;
  if (call.name().empty()) {
    if (method == "GET") return list(call);
  } else {
    if (method == "GET") return show(call, call.name(), 200);
    if (method == "DELETE") return remove(call);
    if (method == "PATCH") return patch(call);
  }
  const auto object = body_of(call);
  if (!object) return std::unexpected(object.error());
  return put(call, *object, method == "POST");
}

}  // namespace

http::Response answer_budgets(const BudgetDeps& deps, const http::Request& request) {
  const auto now = deps.clock.now();
  auto identity =
      http::verify_identity(request.headers.get("X-Nodus-Identity").value_or(""), deps.identity_secret, now);
  if (!identity) return http::status(identity.error());
  auto answered = answer({deps, request, std::move(*identity), now});
  return answered ? std::move(*answered) : http::status(answered.error());
}

void budget_routes(http::Server& server, const BudgetDeps& deps) {
  const auto route = [&](const char* method, const char* pattern, const char* name) {
    server.route({.method = method,
                  .pattern = pattern,
                  .name = name,
                  .handler = [&deps](const http::Request& request) { return answer_budgets(deps, request); },
                  .stream = {},
                  .body_bytes = kMaxBody});
  };
  server.route({.method = "GET",
                .pattern = "/v1/budget-changes",
                .name = "budgets.changes",
                .handler = {},
                .stream = [&deps](http::Exchange& exchange) { return answer_budget_changes(deps, exchange); },
                .body_bytes = {}});
  route("GET", "/v1/budgets", "budgets.list");
  route("POST", "/v1/budgets", "budgets.create");
  for (const auto& [method, name] :
       {std::pair{"GET", "budgets.get"}, std::pair{"PUT", "budgets.replace"},
        std::pair{"PATCH", "budgets.patch"}, std::pair{"DELETE", "budgets.delete"}})
    route(method, "/v1/budgets/{name}", name);
}

}  // namespace nodus::metering
