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

SandboxSpec spec_of(const std::string& text) {
  const auto parsed = parse_manifest(manifest(text), kProject);
  EXPECT_TRUE(parsed.has_value()) << text << (parsed ? "" : ": " + parsed.error().message);
  return parsed ? parsed->spec : SandboxSpec{};
}

TEST(Manifest, QuantitiesAreThoseOfKubernetes) {
  const std::vector<std::pair<std::string, int64_t>> cpus = {
      {R"("250m")", 250},      {R"("0.25")", 250},  {R"(".25")", 250},     {R"("1.")", 1000},
      {R"("64")", 64'000},     {"2", 2000},         {"0.5", 500},          {R"("1e0")", 1000},
      {R"("0.064k")", 64'000}, {R"("25e-2")", 250}, {R"("250000u")", 250}, {R"("1000000000n")", 1000},
  };
  for (const auto& [text, milli] : cpus)
    EXPECT_EQ(spec_of(R"({"image":"i","resources":{"cpu":)" + text + "}}").shape.cpu_milli, milli) << text;
  const std::vector<std::pair<std::string, int64_t>> memories = {
      {R"("128Mi")", int64_t{128} << 20},   {R"("256Gi")", int64_t{256} << 30},
      {"1073741824", int64_t{1} << 30},     {R"("1.5Gi")", int64_t{3} << 29},
      {R"("0.25Ti")", int64_t{256} << 30},  {R"("500M")", 500'000'000},
      {R"("1e9")", 1'000'000'000},          {R"("1E9")", 1'000'000'000},
      {R"("1G")", 1'000'000'000},           {R"("134217728000m")", 134'217'728},
      {R"("0.0000001E")", 100'000'000'000},
  };
  for (const auto& [text, bytes] : memories)
    EXPECT_EQ(spec_of(R"({"image":"i","resources":{"memory":)" + text + "}}").shape.memory_bytes, bytes)
        << text;
  for (const char* text :
       {"\"1 \"", "\" 1\"", "\"1gi\"", "\"1GI\"", "\"1GB\"", "\"0x10\"", "\"1e\"", "\"--1\"", "\"1_0\"",
        "\"½\"", "\".\"", "\"\"", "\"Inf\"", "\"1e-400\"", "true", "[]", "{}", "-1", "1e300"})
    EXPECT_EQ(faulty_fields(manifest(R"({"image":"i","resources":{"memory":)" + std::string(text) + "}}")),
              std::set<std::string>{"spec.resources.memory"})
        << text;
}

TEST(Manifest, DurationsAndTheirEnds) {
  const auto idle = [](const std::string& text) {
    return spec_of(R"({"image":"i","lifecycle":{"idleTimeout":")" + text + R"("}})").idle_timeout;
  };
  for (const char* never : {"0s", "0", "0m", "0h0m0s"}) EXPECT_EQ(idle(never), Micros(0)) << never;
  EXPECT_EQ(idle("1m"), Micros(Seconds(60)));
  EXPECT_EQ(idle("60s"), Micros(Seconds(60)));
  EXPECT_EQ(idle("1.5h"), idle("1h30m"));
  EXPECT_EQ(idle("24h"), Micros(std::chrono::hours(24)));
  const auto lifetime = [](const std::string& text) {
    return spec_of(R"({"image":"i","lifecycle":{"maxLifetime":")" + text + R"("}})").max_lifetime;
  };
  EXPECT_EQ(lifetime("60s"), Micros(Seconds(60)));
  EXPECT_EQ(lifetime("720h"), Micros(std::chrono::hours(720)));
  for (const char* text :
       {"59s", "59.999999s", "24h0m0.000001s", "1ms", "5", "5M", "1d", "-1m", "1m ", "5m30", "P1D"})
    EXPECT_EQ(faulty_fields(
                  manifest(R"({"image":"i","lifecycle":{"idleTimeout":")" + std::string(text) + R"("}})")),
              std::set<std::string>{"spec.lifecycle.idleTimeout"})
        << text;
  for (const char* text : {"59s", "0s", "720h0m1s", "30d", "9999999999h"})
    EXPECT_EQ(faulty_fields(
                  manifest(R"({"image":"i","lifecycle":{"maxLifetime":")" + std::string(text) + R"("}})")),
              std::set<std::string>{"spec.lifecycle.maxLifetime"})
        << text;
}

TEST(Manifest, NullIsAbsentAsInKubernetes) {
  EXPECT_EQ(
      spec_of(R"({"image":"i","resources":null,"network":{"egress":null},"lifecycle":{"idleTimeout":null},
                       "continuity":null,"workingDir":null,"maxCostUSD":null,"state":null,"env":null})"),
      spec_of(R"({"image":"i"})"));
  EXPECT_EQ(faulty_fields(manifest(R"({"image":null})")), std::set<std::string>{"spec.image"});
}

TEST(Manifest, WhatWasReadCanBeAppliedAgain) {
  const auto again = parse_manifest(
      R"({"apiVersion":"nodus.dev/v1","kind":"Sandbox","metadata":{"name":"a","namespace":"web","uid":"u",
         "creationTimestamp":"2026-01-01T00:00:00Z","resourceVersion":"5","generation":1},"spec":{"image":"i"},
         "status":{"phase":"Running"}})",
      kProject);
  ASSERT_TRUE(again.has_value()) << again.error().message;
}

TEST(Manifest, WorkingDirectoriesArePlainAndNotOfTheKernel) {
  const auto directory = [](const std::string& path) {
    return spec_of(R"({"image":"i","workingDir":")" + path + R"("})").working_dir;
  };
  EXPECT_EQ(directory("/workspace/"), "/workspace");
  EXPECT_EQ(directory("/a//b/./c"), "/a/b/c");
  EXPECT_EQ(directory("/"), "/");
  EXPECT_EQ(directory("/processes/..a"), "/processes/..a");
  for (const char* path : {"", "a", "./a", "~", "/..", "/a/..", "/a/../b", "/proc", "/proc/", "//proc/1",
                           "/./sys", "/sys/fs", "/dev", "/dev/shm", "/a\\u0000b"})
    EXPECT_EQ(faulty_fields(manifest(R"({"image":"i","workingDir":")" + std::string(path) + R"("})")),
              std::set<std::string>{"spec.workingDir"})
        << path;
}

TEST(Manifest, ImageReferences) {
  for (const char* image :
       {"i", "nodus/agent-tools", "nodus/agent-tools:1.2_3-x", "localhost:5000/a/b", "r.example/a__b/c:T",
        "i@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"})
    EXPECT_EQ(spec_of(R"({"image":")" + std::string(image) + R"("})").image, image);
  for (const char* image : {"", "/a", "a/", "a//b", "a:", "a:-b", "A/b", "a@sha256:12", "a b", "a:b:c",
                            "../a", "-a", "a\\n", "a@", "https://r.example/a"})
    EXPECT_EQ(faulty_fields(manifest(R"({"image":")" + std::string(image) + R"("})")),
              std::set<std::string>{"spec.image"})
        << image;
}

TEST(Manifest, LabelsAreSelectable) {
  const auto with = [](const std::string& label) {
    return faulty_fields(manifest(R"({"image":"i"})", R"({"name":"a","labels":{)" + label + "}}"));
  };
  for (const char* label : {R"("a":"b")", R"("a":"")", R"("nodus.dev/a_b.c":"v1.2-x")", R"("A":"B")"})
    EXPECT_TRUE(with(label).empty()) << label;
  for (const char* label :
       {R"("":"b")", R"("-a":"b")", R"("a":"b ")", R"("a":"-")", R"("a/b/c":"d")", R"("/a":"b")",
        R"("A_/b":"c")", R"("a":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")"})
    EXPECT_EQ(with(label).size(), 1u) << label;
  EXPECT_TRUE(
      faulty_fields(manifest(R"({"image":"i"})", R"({"name":"a","annotations":{"a/b":"any text, ½"}})"))
          .empty());
}

TEST(Manifest, VariablesAreReadAndNeverRepeated) {
  const auto m = parse_manifest(
      manifest(R"({"image":"i","env":{"TOKEN":"s3cret","EMPTY":"","a.b-c":"1=2"}})"), kProject);
  ASSERT_TRUE(m.has_value()) << m.error().message;
  EXPECT_EQ(m->env,
            (std::map<std::string, std::string>{{"TOKEN", "s3cret"}, {"EMPTY", ""}, {"a.b-c", "1=2"}}));
  EXPECT_TRUE(m->spec.env.empty()) << "digests need the key";
  const auto bad = parse_manifest(
      manifest(
          R"({"image":"i","env":{"A=B":"s3cret","":"s3cret","N":5,"NUL":"s3cret\u0000","T\n":"s3cret"}})"),
      kProject);
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().causes.size(), 5u);
  EXPECT_EQ(bad.error().message.find("s3cret"), std::string::npos);
  const auto many = [](int count) {
    std::string env;
    for (int i = 0; i < count; ++i) env += (i ? ",\"V" : "\"V") + std::to_string(i) + "\":\"\"";
    return faulty_fields(manifest(R"({"image":"i","env":{)" + env + "}}"));
  };
  EXPECT_TRUE(many(256).empty());
  EXPECT_EQ(many(257), std::set<std::string>{"spec.env"});
  EXPECT_EQ(faulty_fields(manifest(R"({"image":"i","env":{"A":")" + std::string(65'536, 'x') + R"("}})")),
            std::set<std::string>{"spec.env"});
  EXPECT_EQ(faulty_fields(manifest(R"({"image":"i","env":[{"name":"A","value":"b"}]})")),
            std::set<std::string>{"spec.env"});
  SandboxSpec spec;
  spec.env = {{"TOKEN", "digest"}};
  EXPECT_EQ(boost::json::serialize(render_spec(spec, true).at("env")), R"({"TOKEN":"***"})");
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
      {manifest(R"({"image":"i","image":"i"})"), "spec.image"},
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
      {manifest(R"({"image":"i","resources":{"cpu":"1 "}})"), "spec.resources.cpu"},
      {manifest(R"({"image":"i","resources":{"gpu":null,"x":1}})"), "spec.resources.x"},
      {manifest(R"({"image":"i","lifecycle":{"idleTimeout":300}})"), "spec.lifecycle.idleTimeout"},
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

}  // namespace
}  // namespace nodus::lifecycle
