#include "libs/http/json_body.hpp"

#include <gtest/gtest.h>

namespace nodus::http {
namespace {

std::string faults_of(std::string_view body) {
  const auto read = parse_json_object(body);
  if (read) return "fine";
  std::string out = read.error().reason;
  for (const auto& cause : read.error().causes) out += " " + cause.field;
  return out;
}

TEST(JsonBody, AFieldThatIsThereTwiceIsNamedWithItsPath) {
  EXPECT_EQ(faults_of(R"({"a":1,"b":{"a":2},"c":[{"a":1},{"a":1}]})"), "fine");
  EXPECT_EQ(faults_of(R"({"a":1,"a":1})"), "BadRequest a") << "also when both say the same";
  EXPECT_EQ(faults_of(R"({"spec":{"image":"x","env":{"A":"1","B":"2","A":"3"}}})"), "BadRequest spec.env.A");
  EXPECT_EQ(faults_of(R"({"a":[1,{"b":{"c":1,"c":2}}],"a":null})"), "BadRequest a[1].b.c a");
  EXPECT_EQ(faults_of(R"({"a":[[{}],[{"x":1,"x":1}]]})"), "BadRequest a[1][0].x");
  EXPECT_EQ(faults_of("{\"\\u0061\":1,\"a\":2}"), "BadRequest a") << "however it is spelt";
  EXPECT_EQ(faults_of(R"({"":1,"":2})"), "BadRequest ");
}

TEST(JsonBody, WhatIsNoObjectIsRefused) {
  for (const char* bad : {"", "[]", "{", "{} {}", "\"a\"", "{\"a\":1,}", "{\"a\":\"\xff\"}"})
    EXPECT_EQ(faults_of(bad), "BadRequest") << bad;
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "{\"a\":";
  EXPECT_EQ(faults_of(deep), "BadRequest");
  EXPECT_EQ(faults_of(" {\"a\" : 1} \n"), "fine");
}

TEST(JsonBody, NoMoreFaultsAreListedThanHelp) {
  std::string body = "{\"k\":0";
  for (int i = 0; i < 1000; ++i) body += ",\"k\":0";
  EXPECT_EQ(parse_json_object(body + "}").error().causes.size(), 16U);
}

}  // namespace
}  // namespace nodus::http
