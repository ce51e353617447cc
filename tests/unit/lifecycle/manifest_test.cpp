#include "services/lifecycle/adapters/manifest.hpp"

#include <gtest/gtest.h>

#include <set>

namespace nodus::lifecycle {
namespace {

const ProjectId kProject("web");

std::string manifest(const std::string& spec, const std::string& metadata = R"({"name":"hello"})") {
  return R"({"apiVersion":"nodus.dev/v1","kind":"Sandbox","metadata":)" + metadata + R"(,"spec":)" + spec +
         "}";
}

std::set<std::string> faulty_fields(const std::string& body) {
  const auto parsed = parse_manifest(body, kProject);
  if (parsed) return {};
  std::set<std::string> fields;
  for (const auto& cause : parsed.error().causes) fields.insert(cause.field);
  if (fields.empty()) fields.insert(parsed.error().reason);
  return fields;
}

TEST(Manifest, QuickStartIsReadToTheLetter) {
  const auto m =
      parse_manifest(manifest(R"({"image":"nodus/agent-tools","resources":{"cpu":"1","memory":"2Gi"},
        "network":{"egress":{"policy":"Deny"}},
        "lifecycle":{"idleTimeout":"5m","onIdle":"Stop","maxLifetime":"2h"},"maxCostUSD":"1.00"})"),
                     kProject);
  ASSERT_TRUE(m.has_value()) << m.error().message;
  EXPECT_EQ(m->name, "hello");
  EXPECT_EQ(m->spec.shape, (Shape{1000, int64_t{2} << 30, int64_t{10} << 30}));
  EXPECT_EQ(m->spec.max_lifetime, Micros(std::chrono::hours(2)));
  EXPECT_EQ(m->spec.max_cost, *Money::parse("1"));
  EXPECT_TRUE(m->run);
}

TEST(Manifest, DefaultsAreThoseOfThePage) {
  const auto m = parse_manifest(manifest(R"({"image":"nodus/agent-tools"})"), kProject);
  ASSERT_TRUE(m.has_value());
  SandboxSpec expected;
  expected.image = "nodus/agent-tools";
  EXPECT_EQ(m->spec, expected);
  EXPECT_TRUE(differences(m->spec, expected).empty());
}

TEST(Manifest, EqualQuantitiesAreEqual) {
  const auto a =
      parse_manifest(manifest(R"({"image":"i","resources":{"cpu":"1","memory":"1Gi"}})"), kProject);
  const auto b = parse_manifest(
      manifest(
          R"({"image":"i","resources":{"cpu":"1000m","memory":"1024Mi","disk":"10737418240"},"state":"Stopped"})"),
      kProject);
  ASSERT_TRUE(a && b);
  EXPECT_TRUE(differences(a->spec, b->spec).empty());
}

TEST(Manifest, DifferencesNameTheFieldAndBothValues) {
  SandboxSpec a;
  SandboxSpec b;
  b.shape.cpu_milli = 2000;
  b.max_cost = *Money::parse("5");
  const auto d = differences(a, b);
  ASSERT_EQ(d.size(), 2u);
  EXPECT_EQ(d[0].field, "spec.resources.cpu");
  EXPECT_EQ(d[0].existing, "1");
  EXPECT_EQ(d[0].requested, "2");
  EXPECT_EQ(d[1].field, "spec.maxCostUSD");
}

TEST(Manifest, EveryFaultIsListedWithItsPath) {
  EXPECT_EQ(faulty_fields(manifest(
                R"({"image":5,"resources":{"cpu":"100","memory":"1Ki","disk":"1Ti","gpu":1,"x":1},
                  "network":{"egress":{"policy":"Maybe"}},"lifecycle":{"idleTimeout":"30s","onIdle":"Nap","maxLifetime":"1000h"},
                  "continuity":{"mode":"Maybe"},"workingDir":"/proc/self","maxCostUSD":"-1","state":"Flying","what":1})",
                R"({"name":"Not A Name","namespace":"other","labels":{"a":1},"what":1})")),
            (std::set<std::string>{
                "spec.image", "spec.resources.cpu", "spec.resources.memory", "spec.resources.disk",
                "spec.resources.gpu", "spec.resources.x", "spec.network.egress.policy",
                "spec.lifecycle.idleTimeout", "spec.lifecycle.onIdle", "spec.lifecycle.maxLifetime",
                "spec.continuity.mode", "spec.workingDir", "spec.maxCostUSD", "spec.state", "spec.what",
                "metadata.name", "metadata.namespace", "metadata.labels.a", "metadata.what"}));
}

TEST(Manifest, OneFaultEach) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "BadRequest"},
      {"[]", "BadRequest"},
      {"{", "BadRequest"},
      {R"({"apiVersion":"nodus.dev/v1","kind":"Sandbox","metadata":{"name":"a"}})", "spec"},
      {R"({"apiVersion":"v2","kind":"Sandbox","metadata":{"name":"a"},"spec":{"image":"i"}})", "apiVersion"},
      {R"({"apiVersion":"nodus.dev/v1","kind":"Pod","metadata":{"name":"a"},"spec":{"image":"i"}})", "kind"},
      {R"({"kind":"Sandbox","metadata":{"name":"a"},"spec":{"image":"i"}})", "apiVersion"},
      {manifest(R"({"image":"i"})", "{}"), "metadata.name"},
      {manifest(R"({"image":"i"})", R"({"name":"-a"})"), "metadata.name"},
      {manifest(R"({"image":"i"})", R"({"name":""})"), "metadata.name"},
      {manifest("{}"), "spec.image"},
      {manifest(R"({"image":""})"), "spec.image"},
      {manifest(R"({"image":"a b"})"), "spec.image"},
      {manifest(R"({"image":"i","resources":[]})"), "spec.resources"},
      {manifest(R"({"image":"i","resources":{"cpu":1}})"), "spec.resources.cpu"},
      {manifest(R"({"image":"i","resources":{"cpu":"0.249"}})"), "spec.resources.cpu"},
      {manifest(R"({"image":"i","resources":{"cpu":"1e400"}})"), "spec.resources.cpu"},
      {manifest(R"({"image":"i","resources":{"memory":"257Gi"}})"), "spec.resources.memory"},
      {manifest(R"({"image":"i","resources":{"memory":"99999999999999999999Gi"}})"), "spec.resources.memory"},
      {manifest(R"({"image":"i","lifecycle":{"idleTimeout":"25h"}})"), "spec.lifecycle.idleTimeout"},
      {manifest(R"({"image":"i","lifecycle":{"idleTimeout":"-5m"}})"), "spec.lifecycle.idleTimeout"},
      {manifest(R"({"image":"i","lifecycle":{"maxLifetime":"0s"}})"), "spec.lifecycle.maxLifetime"},
      {manifest(R"({"image":"i","workingDir":"workspace"})"), "spec.workingDir"},
      {manifest(R"({"image":"i","workingDir":"/a/../proc"})"), "spec.workingDir"},
      {manifest(R"({"image":"i","maxCostUSD":1})"), "spec.maxCostUSD"},
      {manifest(R"({"image":"i","maxCostUSD":"NaN"})"), "spec.maxCostUSD"},
      {manifest(R"({"image":"i","maxCostUSD":"0"})"), "spec.maxCostUSD"},
      {manifest(R"({"image":"i","maxCostUSD":"1e3"})"), "spec.maxCostUSD"},
  };
  for (const auto& [body, field] : cases)
    EXPECT_EQ(faulty_fields(body), std::set<std::string>{field}) << body;
}

TEST(Patch, ChangesStateAndCapOnly) {
  const auto stop = parse_patch(R"({"spec":{"state":"Stopped"}})");
  ASSERT_TRUE(stop.has_value());
  EXPECT_EQ(stop->run, false);
  const auto refused = parse_patch(R"({"spec":{"image":"other","resources":{}},"metadata":{"name":"x"}})");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().causes.size(), 3u);
}

}  // namespace
}  // namespace nodus::lifecycle
