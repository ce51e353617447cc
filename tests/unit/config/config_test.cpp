#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "libs/config/config.hpp"

namespace nodus::config {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> fields(const Result<void>& result) {
  std::vector<std::string> paths;
  if (!result)
    for (const Cause& cause : result.error().causes) paths.push_back(cause.field);
  return paths;
}

TEST(Config, ReadsEveryKind) {
  Reader in(
      *load_text("http: {listen: '127.0.0.1:1'}\nlog:\n  partitions: 4\n  on: true\nidle: 5m\n"
                 "disk: 10Gi\nnames: [a, b]\n"));
  EXPECT_EQ(in.text("http.listen"), "127.0.0.1:1");
  EXPECT_EQ(in.integer("log.partitions", 1, 1, 64), 4);
  EXPECT_TRUE(in.boolean("log.on", false));
  EXPECT_EQ(in.duration("idle", std::nullopt), 5min);
  EXPECT_EQ(in.quantity("disk", std::nullopt), 10LL << 30);
  EXPECT_EQ(in.texts("names", {}), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(in.finish());
}

TEST(Config, DefaultsStandInForWhatIsAbsent) {
  Reader in(*load_text(""));
  EXPECT_EQ(in.text("a.b", "x"), "x");
  EXPECT_EQ(in.integer("n", 7, 1, 9), 7);
  EXPECT_FALSE(in.boolean("f", false));
  EXPECT_EQ(in.duration("d", 90s), 90s);
  EXPECT_EQ(in.quantity("q", "1Ki"), 1024);
  EXPECT_EQ(in.texts("l", {"z"}), std::vector<std::string>{"z"});
  EXPECT_TRUE(in.finish());
}

TEST(Config, ReportsEveryFaultAtOnce) {
  unsetenv("NODUS_TEST_ABSENT");
  Reader in(
      *load_text("n: 12\nf: maybe\nd: soon\nq: much\nl: one\nm: [1]\nextra: 1\nhttp: {listn: x}\n"
                 "n: 13\nempty:\n"));
  in.text("required");
  in.integer("n", 1, 1, 9);
  in.boolean("f", std::nullopt);
  in.duration("d", std::nullopt);
  in.quantity("q", std::nullopt);
  in.texts("l", {});
  in.text("m");
  in.text("empty");
  in.text("http.listen", "x");
  in.choice("kind", {"log", "kafka"}, "rabbit");
  in.secret("NODUS_TEST_ABSENT");
  EXPECT_THAT(fields(in.finish()),
              testing::UnorderedElementsAre("required", "n", "f", "d", "q", "l", "m", "empty", "n", "extra",
                                            "http.listn", "kind", "NODUS_TEST_ABSENT"));
}

TEST(Config, AScalarWhereAMappingBelongsIsAFault) {
  Reader in(*load_text("http: 7400\n"));
  in.text("http.listen", "x");
  EXPECT_EQ(fields(in.finish()), std::vector<std::string>{"http"});
}

TEST(Config, RefusesWhatIsNotAMapping) {
  for (const char* text : {"- a\n", "just text", "a: [", "a: b: c", "\t\tx: {", "? {a"})
    EXPECT_FALSE(load_text(text)) << text;
  EXPECT_FALSE(load_file("/nonexistent/nodus.yaml"));
}

TEST(Config, PrintsEffectiveValuesAndNoSecrets) {
  setenv("NODUS_TEST_SECRET", "very-secret", 1);
  Reader in(*load_text("a: {b: 1}\n"));
  in.integer("a.b", 5, 0, 9);
  in.duration("a.idle", 5min);
  in.texts("names", {"x"});
  EXPECT_EQ(in.secret("NODUS_TEST_SECRET"), "very-secret");
  ASSERT_TRUE(in.finish());
  const std::string text = in.print();
  EXPECT_THAT(text, HasSubstr("b: 1"));
  EXPECT_THAT(text, HasSubstr("idle: 5m"));
  EXPECT_THAT(text, HasSubstr("NODUS_TEST_SECRET"));
  EXPECT_THAT(text, Not(HasSubstr("very-secret")));
}

}  // namespace
}  // namespace nodus::config
