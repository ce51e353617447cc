#include "services/metering/adapters/http/budget_route.hpp"

#include "libs/base/random.hpp"
#include "libs/http/identity.hpp"
#include "services/metering/adapters/http/budget_object.hpp"
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

Result<budget::State> read(const Call& call) {
  const auto head = call.deps.log.head(budget_stream(call.caller.project));
  if (!head) return std::unexpected(head.error());
  if (head->version > 0) return codec::decode_budget_state(head->state);
  budget::State none;
  none.org = call.caller.org;
  none.project = call.caller.project;
  return none;
}

Result<http::Response> show(const Call& call, const std::string& name, int status) {
  const auto state = read(call);
  if (!state) return std::unexpected(state.error());
  const auto* budget = budget::find(*state, name);
  if (budget == nullptr) return no_such(name);
  return http::json(status, json::serialize(to_json(*state, *budget, call.now)));
}

Result<http::Response> list(const Call& call) {
  const auto watched = call.request.query_value("watch").value_or("");
  if (!watched.empty() && watched != "false" && watched != "0")
    return fail(Code::kBadRequest, "BadRequest",
                "Budgets cannot be watched: leave watch out, and ask again.");
  const auto state = read(call);
  if (!state) return std::unexpected(state.error());
  json::array items;
  for (const auto& budget : state->budgets) items.push_back(to_json(*state, budget, call.now));
  return http::json(200, json::serialize(json::object{{"apiVersion", "nodus.dev/v1"},
                                                      {"kind", "BudgetList"},
                                                      {"metadata", json::object{{"resourceVersion", ""}}},
                                                      {"items", std::move(items)}}));
}

Result<json::value> body_of(const Call& call) {
  boost::system::error_code error;
  auto value = json::parse(call.request.body, error);
  if (error) return fail(Code::kBadRequest, "BadRequest", "The body is not JSON: " + error.message() + ".");
  return value;
}

Result<bool> dry_run(const Call& call) {
  const auto given = call.request.query_value("dryRun");
  if (!given) return false;
  if (*given == "All") return true;
  return fail(Code::kInvalid, "Invalid", "dryRun takes All only.");
}

// Decides, and keeps it unless it is a dry run. "done": something changed.
Result<std::string> apply(const Call& call, const BudgetCommand& command) {
  const auto dry = dry_run(call);
  if (!dry) return std::unexpected(dry.error());
  const auto key = call.request.headers.get("Idempotency-Key").value_or("");
  if (key.size() > kMaxIdempotencyKey)
    return fail(Code::kBadRequest, "BadRequest", "An Idempotency-Key has at most 128 bytes.");
  auto work = call.deps.works.on_budget(command, !*dry);
  if (!key.empty() && !*dry) {
    work.key = "budget/" + call.caller.org.str() + "/" + sha256_hex(key);
    work.input_hash = sha256_hex(call.request.method + "\n" + call.caller.project.str() + "\n" + call.name() +
                                 "\n" + call.request.body);
  }
  return std::move(call.deps.log.run(std::vector{std::move(work)}).front());
}

Result<std::optional<int64_t>> expected_of(const BudgetManifest& manifest) {
  if (manifest.resource_version.empty()) return std::nullopt;
  const auto& text = manifest.resource_version;
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
  const auto expected = create ? Result<std::optional<int64_t>>(std::nullopt) : expected_of(*manifest);
  if (!expected) return std::unexpected(expected.error());
  const auto done = apply(
      call, PutBudget{call.caller.org, call.caller.project, manifest->name, random_uuid(), manifest->spec,
                      "key/" + call.caller.key_id, create, *expected, create ? "" : manifest->uid});
  if (!done) return std::unexpected(done.error());
  if (call.request.query_value("dryRun")) {  // as it would be
    budget::Budget budget{.name = manifest->name,
                          .uid = "",
                          .spec = manifest->spec,
                          .created_at = call.now,
                          .generation = 0,
                          .cover = {},
                          .exhausted_s = {}};
    auto state = read(call);
    if (!state) return std::unexpected(state.error());
    return http::json(create && *done == "done" ? 201 : 200,
                      json::serialize(to_json(*state, budget, call.now)));
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
  if (call.request.headers.get("Content-Type").value_or("") != "application/merge-patch+json")
    return fail(Code::kBadRequest, "UnsupportedMediaType", "Send an application/merge-patch+json.");
  const auto given = body_of(call);
  if (!given) return std::unexpected(given.error());
  if (!given->is_object()) return fail(Code::kBadRequest, "BadRequest", "The patch is not a JSON object.");
  Result<http::Response> answer = no_such(call.name());
  for (int turn = 0; turn < kPatches; ++turn) {
    const auto state = read(call);
    if (!state) return std::unexpected(state.error());
    const auto* budget = budget::find(*state, call.name());
    if (budget == nullptr) return no_such(call.name());
    json::value object = to_json(*state, *budget, call.now);
    object.get_object().erase("status");
    merge(object, *given);
    answer = put(call, object, false);
    if (answer || answer.error().reason != "Conflict") return answer;
  }
  return answer;
}

Result<http::Response> remove(const Call& call) {
  const auto before = show(call, call.name(), 200);
  if (!before && call.request.headers.get("Idempotency-Key").value_or("").empty())
    return std::unexpected(before.error());
  const auto done = apply(
      call, DeleteBudget{call.caller.org, call.caller.project, call.name(), "key/" + call.caller.key_id});
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
  route("GET", "/v1/budgets", "budgets.list");
  route("POST", "/v1/budgets", "budgets.create");
  for (const auto& [method, name] :
       {std::pair{"GET", "budgets.get"}, std::pair{"PUT", "budgets.replace"},
        std::pair{"PATCH", "budgets.patch"}, std::pair{"DELETE", "budgets.delete"}})
    route(method, "/v1/budgets/{name}", name);
}

}  // namespace nodus::metering
