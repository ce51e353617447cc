// The API's shape without a server: selectors, options, watch verdicts, patches, Tables, and that the table
// of fields, the manifest's check, what is rendered and the OpenAPI document say the same.
#include <gtest/gtest.h>
#include <algorithm>

#include "services/lifecycle/adapters/discovery.hpp"
#include "services/lifecycle/adapters/fields.hpp"
#include "services/lifecycle/adapters/manifest.hpp"
#include "services/lifecycle/adapters/read_options.hpp"
#include "services/lifecycle/adapters/render.hpp"
#include "services/lifecycle/adapters/watch.hpp"
#include "services/lifecycle/adapters/write_options.hpp"

namespace nodus::lifecycle {
namespace {

namespace json = boost::json;

json::object object(const std::string& text) {
  return json::parse(text).as_object();
}

Selector selecting(const std::string& labels, const std::string& fields = "") {
  return {*parse_label_selector(labels), *parse_field_selector(fields, sandbox_resource().fields)};
}

http::Request asking(std::multimap<std::string, std::string> query, const std::string& accept = "") {
  http::Request request;
  request.query = std::move(query);
  if (!accept.empty()) request.headers.set("Accept", accept);
  return request;
}

TEST(Selectors, ReadWhatKubernetesWrites) {
  const auto web = object(
      R"({"metadata":{"name":"a","labels":{"app":"web","tier":"a","x.io/y":""}},"status":{"phase":"Running"}})");
  for (const char* yes : {"app=web", "app==web", " app = web ", "app!=db", "none!=db", "app in (db, web)",
                          "app notin (db)", "none notin (a)", "app", "!none", "app,tier",
                          "x.io/y=", "x.io/y in (,a)", "app=web,tier notin (b,c),!q"})
    EXPECT_TRUE(matches(selecting(yes), web)) << yes;
  for (const char* no :
       {"app=db", "app!=web", "none", "!app", "app in (db)", "app notin (web)", "none=", "none in (a)"})
    EXPECT_FALSE(matches(selecting(no), web)) << no;
  for (const char* bad : {"app=web,", ",app", "app in", "app in (", "app in web", "=web", "app=a b", "!",
                          "app=web tier=a", "a b", "-a=b", "a/b/c", "app=é", "app in (a;b)", "(", "app=="})
    EXPECT_EQ(parse_label_selector(bad).has_value(), std::string(bad) == "app==") << bad;
  EXPECT_FALSE(parse_label_selector(std::string(5000, 'a')).has_value());
}

TEST(Selectors, FieldsAreTheSupportedOnes) {
  const auto one = object(R"({"metadata":{"name":"a,b"},"status":{"phase":"Running"}})");
  EXPECT_TRUE(matches(selecting("", "status.phase=Running"), one));
  EXPECT_TRUE(matches(selecting("", "status.phase!=Failed,metadata.name==a\\,b"), one));
  EXPECT_FALSE(matches(selecting("", "status.phase=Failed"), one));
  EXPECT_TRUE(matches(selecting("", "metadata.namespace="), one)) << "a missing field is empty";
  for (const char* bad : {"spec.image=x", "status.phase", "x"})
    EXPECT_FALSE(parse_field_selector(bad, sandbox_resource().fields).has_value()) << bad;
}

TEST(Watching, AChangeIsToldAsItLooksThroughTheSelector) {
  const auto stopped = object(R"({"metadata":{"name":"a"},"status":{"phase":"Stopped"}})");
  const auto running = object(R"({"metadata":{"name":"a"},"status":{"phase":"Running"}})");
  const auto only = selecting("", "status.phase=Running");
  EXPECT_EQ(verdict({}, "ADDED", stopped, {}), "ADDED");
  EXPECT_EQ(verdict({}, "MODIFIED", running, stopped), "MODIFIED");
  EXPECT_EQ(verdict({}, "DELETED", running, running), "DELETED");
  EXPECT_EQ(verdict(only, "ADDED", stopped, {}), "");
  EXPECT_EQ(verdict(only, "MODIFIED", running, stopped), "ADDED");
  EXPECT_EQ(verdict(only, "MODIFIED", stopped, running), "DELETED");
  EXPECT_EQ(verdict(only, "MODIFIED", stopped, stopped), "");
  EXPECT_EQ(verdict(only, "DELETED", stopped, stopped), "");
}

TEST(ReadOptions, PagesVersionsAndForms) {
  const auto& kind = sandbox_resource();
  EXPECT_EQ(read_options(asking({{"limit", "0"}}), kind)->query.limit, 500);
  EXPECT_EQ(read_options(asking({{"limit", "7"}}), kind)->query.limit, 7);
  EXPECT_EQ(read_options(asking({{"limit", "100000"}}), kind)->query.limit, 500);
  EXPECT_EQ(read_options(asking({{"limit", "-1"}}), kind).error().code, Code::kInvalid);
  const auto next = read_options(asking({{"continue", continue_token(12, "hello")}}), kind);
  EXPECT_EQ(next->query.after, "hello");
  EXPECT_EQ(next->token_version, 12);
  for (const char* bad : {"!", "bm9wZQ==", "aGVsbG8v", "MTIv"})
    EXPECT_EQ(read_options(asking({{"continue", bad}}), kind).error().code, Code::kBadRequest) << bad;
  EXPECT_FALSE(read_options(asking({{"resourceVersion", "0"}}), kind)->since.has_value());
  EXPECT_EQ(read_options(asking({{"resourceVersion", "9"}}), kind)->since, 9);
  EXPECT_FALSE(read_options(asking({{"resourceVersion", "x"}}), kind).has_value());
  EXPECT_EQ(read_options(asking({{"resourceVersion", "9"}, {"resourceVersionMatch", "Exact"}}), kind)
                .error()
                .reason,
            "Expired");
  EXPECT_FALSE(read_options(asking({{"watch", "maybe"}}), kind).has_value());
  EXPECT_TRUE(read_options(asking({{"watch", "1"}, {"timeoutSeconds", "5"}}), kind)->watch);
  EXPECT_FALSE(read_options(asking({{"sendInitialEvents", "true"}, {"watch", "true"}}), kind).has_value());
  for (const char* plain :
       {"", "*/*", "application/json", "text/html, application/json;q=0.5", "application/*",
        "application/vnd.kubernetes.protobuf,application/json", "application/json;stream=watch"})
    EXPECT_EQ(form_of(asking({}, plain))->as, Form::As::kObject) << plain;
  EXPECT_EQ(form_of(asking({}, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"))->as,
            Form::As::kTable);
  EXPECT_EQ(form_of(asking({}, "application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json"))->as,
            Form::As::kObject);
  for (const char* none : {"text/html", "application/yaml", "application/json;q=0",
                           "application/json;as=Table;v=v2;g=meta.k8s.io"})
    EXPECT_EQ(form_of(asking({}, none)).error().reason, "NotAcceptable") << none;
}

TEST(WriteOptions, DryRunsPreconditionsAndMediaTypes) {
  EXPECT_TRUE(*dry_run_of(asking({{"dryRun", "All"}})));
  EXPECT_FALSE(*dry_run_of(asking({})));
  EXPECT_FALSE(dry_run_of(asking({{"dryRun", "All"}, {"dryRun", "Some"}})).has_value());
  http::Request request;
  EXPECT_FALSE(takes_merge_patch(request).has_value());
  request.headers.set("Content-Type", "Application/Merge-Patch+JSON; charset=utf-8");
  EXPECT_TRUE(takes_merge_patch(request).has_value());
  EXPECT_EQ(takes_json(request).error().reason, "UnsupportedMediaType");
  request.headers.set("Content-Type", "application/json");
  request.body =
      R"({"kind":"DeleteOptions","preconditions":{"uid":"u","resourceVersion":"7"},"dryRun":["All"],
                     "propagationPolicy":"Background","gracePeriodSeconds":0})";
  const auto options = delete_options(request);
  ASSERT_TRUE(options.has_value()) << options.error().message;
  EXPECT_TRUE(options->dry_run);
  EXPECT_EQ(options->precondition.uid, "u");
  EXPECT_EQ(options->precondition.resource_version, 7);
  for (const char* bad : {"{", "[]", R"({"preconditions":1})", R"({"dryRun":["None"]})",
                          R"({"dryRun":"All"})", R"({"propagationPolicy":"Orphan"})",
                          R"({"preconditions":{"resourceVersion":"x"}})", R"({"what":1})"}) {
    request.body = bad;
    EXPECT_FALSE(delete_options(request).has_value()) << bad;
  }
}

TEST(MergePatch, AsRfc7396HasIt) {
  for (const auto& [target, patch, result] : std::vector<std::array<const char*, 3>>{
           {R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
           {R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"},
           {R"({"a":"b"})", R"({"a":null})", R"({})"},
           {R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
           {R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
           {R"({"a":"c"})", R"({"a":["b"]})", R"({"a":["b"]})"},
           {R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
           {R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
           {R"(["a","b"])", R"(["c","d"])", R"(["c","d"])"},
           {R"({"a":"b"})", R"(["c"])", R"(["c"])"},
           {R"({"e":null})", R"({"a":1})", R"({"e":null,"a":1})"},
           {R"([1,2])", R"({"a":"b","c":null})", R"({"a":"b"})"},
           {R"({})", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"}}) {
    json::value value = json::parse(target);
    merge(value, json::parse(patch));
    EXPECT_EQ(value, json::parse(result)) << target << " + " << patch;
  }
}

void walk(const json::object& in, const std::string& path, const std::set<std::string_view>& known,
          const std::set<std::string_view>& open) {
  for (const auto& [key, value] : in) {
    const std::string at = path.empty() ? std::string(key) : path + "." + std::string(key);
    EXPECT_TRUE(known.contains(at)) << at << " is rendered, but not in the table of fields";
    if (value.is_object() && !open.contains(at)) walk(value.get_object(), at, known, open);
  }
}

std::set<std::string_view> paths(std::span<const Field> fields, bool maps) {
  std::set<std::string_view> out;
  for (const auto& field : fields)
    if (!maps || field.type == Field::Type::kStrings) out.insert(field.path);
  return out;
}

TEST(Fields, WhatIsRenderedIsInTheTable) {
  SandboxView view;
  auto& s = view.sandbox;
  s.name = "a";
  s.labels = s.annotations = {{"app", "web"}};
  s.spec.env = {{"A", "digest"}};
  s.spec.max_cost = *Money::parse("1.00");
  s.phase = Phase::kRunning;
  s.rate = Rate::from_pico_per_second(1);
  s.runtime = "runc";
  s.reserved_at = s.started_at = Instant();
  s.failure = s.message = "x";
  s.stop_reason = StopReason::kIdle;
  s.restore_point = RestorePoint{"o", "h", 1, Instant()};
  for (const Phase phase : {Phase::kPending, Phase::kRunning, Phase::kStopping, Phase::kStopped,
                            Phase::kTerminating, Phase::kFailed})
    for (const bool busy : {false, true}) {
      s.phase = phase;
      view.busy = busy;
      walk(render_sandbox(view, Instant()), "", paths(sandbox_fields(), false),
           paths(sandbox_fields(), true));
    }
  Process process;
  process.admitted.command = {"true"};
  walk(render_process({process, 1}), "", paths(process_fields(), false), {"metadata.labels"});
  process.ended = ProcessEnded{"NonZeroExit", 1, "m", Instant(), Instant()};
  walk(render_process({process, 1}), "", paths(process_fields(), false), {"metadata.labels"});
  walk(render_event({}), "", paths(event_fields(), false), {});
}

TEST(Fields, AManifestMayNameWhatIsInTheTableAndNothingElse) {
  for (const auto& field : sandbox_fields()) {
    if (field.path.starts_with("status.")) continue;
    json::value whole = object(
        R"({"apiVersion":"nodus.dev/v1","kind":"Sandbox","metadata":{"name":"a"},"spec":{"image":"nodus/busybox"}})");
    const auto put = [&](const std::string& path) {
      json::object patch;
      json::object* at = &patch;
      std::string_view rest = path;
      for (size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
        at = &(*at)[rest.substr(0, dot)].emplace_object();
        rest.remove_prefix(dot + 1);
      }
      (*at)[rest] = 17;  // of a wrong type for most, but the name is known
      json::value merged = whole;
      merge(merged, patch);
      const auto parsed = parse_manifest(json::serialize(merged), ProjectId("web"));
      return !parsed && std::ranges::any_of(parsed.error().causes,
                                            [&](const Cause& c) { return c.reason == "FieldUnknown"; });
    };
    EXPECT_FALSE(put(std::string(field.path)))
        << field.path << " is in the table, but a manifest may not name it";
    if (field.type == Field::Type::kObject && field.path != "status")
      EXPECT_TRUE(put(std::string(field.path) + ".what")) << field.path;
  }
}

TEST(OpenApi, HasEveryFieldAndEveryRoute) {
  const auto document = openapi_document(false, public_routes());
  const auto& schemas = document.at("components").at("schemas").as_object();
  const json::object* at = &schemas.at("Sandbox").as_object();
  for (const auto& field : sandbox_fields()) {
    const json::object* here = at;
    std::string_view rest = field.path;
    while (!rest.empty()) {
      const size_t dot = rest.find('.');
      here = here->at("properties").as_object().at(rest.substr(0, dot)).if_object();
      ASSERT_NE(here, nullptr) << field.path;
      rest = dot == std::string_view::npos ? "" : rest.substr(dot + 1);
    }
    EXPECT_EQ(here->at("description").as_string(), field.description);
  }
  for (const auto& route : public_routes()) {
    if (!route.pattern.starts_with("/apis/nodus.dev/v1/")) continue;
    std::string path = route.pattern;
    if (const size_t found = path.find("{project}"); found != std::string::npos)
      path.replace(found, 9, "{namespace}");
    EXPECT_TRUE(document.at("paths").as_object().contains(path)) << path;
  }
}

// How kubectl explain finds a kind, and how kubectl create learns that it need not validate by itself.
TEST(OpenApi, IsWhatKubectlLooksFor) {
  const auto document = openapi_document(false, public_routes());
  const json::object kind{{"group", "nodus.dev"}, {"kind", "Sandbox"}, {"version", "v1"}};
  EXPECT_EQ(document.at("components").at("schemas").at("Sandbox").at("x-kubernetes-group-version-kind"),
            json::value(json::array{json::value(kind)}));
  const auto& paths = document.at("paths").as_object();
  const auto& list = paths.at("/apis/nodus.dev/v1/namespaces/{namespace}/sandboxes").at("get");
  EXPECT_EQ(list.at("x-kubernetes-group-version-kind"), json::value(kind));
  EXPECT_EQ(list.at("x-kubernetes-action"), "list");
  const auto& patch = paths.at("/apis/nodus.dev/v1/namespaces/{namespace}/sandboxes/{name}").at("patch");
  EXPECT_EQ(patch.at("x-kubernetes-group-version-kind"), json::value(kind));
  const auto& parameters = patch.at("parameters").as_array();
  EXPECT_TRUE(std::ranges::any_of(
      parameters, [](const json::value& each) { return each.at("name") == "fieldValidation"; }));
}

TEST(Tables, ShowAgesAsPeopleReadThem) {
  for (const auto& [age, text] : std::vector<std::pair<int64_t, const char*>>{{-5, "0s"},
                                                                              {0, "0s"},
                                                                              {119, "119s"},
                                                                              {120, "2m"},
                                                                              {200, "3m20s"},
                                                                              {720, "12m"},
                                                                              {3 * 3600, "3h"},
                                                                              {5 * 3600 + 600, "5h10m"},
                                                                              {30 * 3600, "30h"},
                                                                              {3 * 86400 + 4 * 3600, "3d4h"},
                                                                              {40 * 86400, "40d"}})
    EXPECT_EQ(human_age(Seconds(age)), text);
}

}  // namespace
}  // namespace nodus::lifecycle
