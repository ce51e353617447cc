#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "cli/api.hpp"
#include "cli/channels.hpp"
#include "cli/frames.hpp"
#include "cli/manifest.hpp"
#include "cli/names.hpp"
#include "cli/output.hpp"
#include "cli/retry.hpp"
#include "libs/base/random.hpp"

namespace nodus::cli {
namespace {

using testing::HasSubstr;
namespace json = boost::json;

const char* kSpecManifest = R"(apiVersion: nodus.dev/v1
kind: Sandbox
metadata:
  name: hello
spec:
  image: nodus/agent-tools # required: Python 3.12, Node 22 and git
  resources:
    cpu: "1"
    memory: 2Gi
  network:
    egress:
      policy: Deny # the default: no outbound traffic
  lifecycle:
    idleTimeout: 5m # stop after 5 minutes with no exec, file request or running process
    onIdle: Stop
    maxLifetime: 2h
  maxCostUSD: "1.00"
)";

TEST(Manifest, OfTheSpec) {
  const auto read = read_manifests(kSpecManifest, "sandbox.yaml");
  ASSERT_TRUE(read);
  ASSERT_EQ(read->size(), 1u);
  EXPECT_EQ(
      json::serialize((*read)[0]),
      R"({"apiVersion":"nodus.dev/v1","kind":"Sandbox","metadata":{"name":"hello"},"spec":{)"
      R"("image":"nodus/agent-tools","resources":{"cpu":"1","memory":"2Gi"},"network":{"egress":{"policy":"Deny"}},)"
      R"("lifecycle":{"idleTimeout":"5m","onIdle":"Stop","maxLifetime":"2h"},"maxCostUSD":"1.00"}})");
}

TEST(Manifest, TypesAreYamlsAndTheServersToJudge) {
  const auto read = read_manifests(
      "a: 1\nb: '1'\nc: 1.5\nd: true\ne: yes\nf:\ng: [x, 2]\nh: 0x10\ni: 1e3\nj: \"\"\nk: 1.5.2\n", "m");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(
      json::value((*read)[0]),
      json::parse(
          R"({"a":1,"b":"1","c":1.5,"d":true,"e":"yes","f":null,"g":["x",2],"h":"0x10","i":1e3,"j":"","k":"1.5.2"})"));
}

TEST(Manifest, SeveralDocuments) {
  const auto read = read_manifests("a: 1\n---\n---\nb: 2\n...\n", "m");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->size(), 2u);
}

TEST(Manifest, FaultsHaveAPlace) {
  for (const char* bad :
       {"", "---\n", "- a\n", "text", "a: [", "a: 1\na: 2\n", "a: {b: 1, b: 2}", "? [x]\n: y\n", "a: b: c"}) {
    const auto read = read_manifests(bad, "m.yaml");
    ASSERT_FALSE(read) << bad;
    EXPECT_EQ(read.error().reason, "LocalFault");
    EXPECT_THAT(read.error().message, HasSubstr("m.yaml"));
  }
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'k'; ++c) {
    const std::string prior = std::string("*") + static_cast<char>(c - 1);
    bomb += std::string(1, c) + ": &" + c + " [" + prior;
    for (int i = 0; i < 8; ++i) bomb += "," + prior;
    bomb += "]\n";
  }
  EXPECT_FALSE(read_manifests(bomb, "m.yaml"));
  EXPECT_FALSE(read_manifests("a: " + std::string(100, '[') + std::string(100, ']'), "m.yaml"));
}

TEST(Manifest, ImageIsFilledInOnlyWhereItBelongs) {
  json::object bare{{"kind", "Sandbox"}};
  fill_in_image(bare);
  EXPECT_EQ(bare.at("spec").at("image"), "nodus/agent-tools");
  json::object own{{"kind", "Sandbox"}, {"spec", {{"image", "mine"}}}};
  fill_in_image(own);
  EXPECT_EQ(own.at("spec").at("image"), "mine");
  json::object wrong{{"kind", "Sandbox"}, {"spec", 7}};
  fill_in_image(wrong);
  EXPECT_EQ(wrong.at("spec"), 7);
  json::object other{{"kind", "Budget"}};
  fill_in_image(other);
  EXPECT_FALSE(other.contains("spec"));
}

TEST(Manifest, FromFlags) {
  CreateFlags flags;
  flags.name = "dev";
  EXPECT_EQ(json::serialize(manifest_from(flags)->at("spec")), R"({"image":"nodus/agent-tools"})");
  flags.cpu = "2";
  flags.egress = "Open";
  flags.idle_timeout = "0s";
  flags.continuity = "Ephemeral";
  flags.max_cost = "5.00";
  EXPECT_EQ(json::serialize(manifest_from(flags)->at("spec")),
            R"({"image":"nodus/agent-tools","resources":{"cpu":"2"},"network":{"egress":{"policy":"Open"}},)"
            R"("lifecycle":{"idleTimeout":"0s"},"continuity":{"mode":"Ephemeral"},"maxCostUSD":"5.00"})");
}

TEST(Table, AsInTheSpec) {
  const json::value sandbox = json::parse(
      R"({"metadata":{"name":"hello","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"resources":{"cpu":"1","memory":"1Gi"}},)"
      R"("status":{"phase":"Stopped","activity":"Idle","cost":"0.004200000000"}})");
  EXPECT_EQ(Table(head_of(Kind::kSandbox, false))
                .add({row_of(Kind::kSandbox, sandbox, false, *parse_rfc3339("2026-01-01T00:12:00Z"))}),
            "NAME    PHASE     ACTIVITY   CPU   MEMORY   GPU   COST      AGE\n"
            "hello   Stopped   Idle       1     1Gi      -     $0.0042   12m\n");
}

TEST(Table, CostIsExact) {
  for (const auto& [usd, text] : std::vector<std::pair<std::string, std::string>>{
           {"0", "$0.0000"},
           {"0.004200000000", "$0.0042"},
           {"0.00415", "$0.0042"},
           {"0.004149999999", "$0.0041"},
           {"0.99995", "$1.0000"},
           {"9.99999", "$10.0000"},
           {"12345678901234567890.5", "$12345678901234567890.5000"},
           {"", "-"},
           {"-1", "-"},
           {"1e3", "-"}})
    EXPECT_EQ(format_cost(usd), text) << usd;
}

TEST(Table, Ages) {
  for (const auto& [seconds, text] : std::vector<std::pair<int, std::string>>{
           {-5, "0s"}, {0, "0s"}, {119, "119s"}, {720, "12m"}, {7199, "119m"}, {7200, "2h"}, {172800, "2d"}})
    EXPECT_EQ(format_age(Seconds(seconds)), text);
}

TEST(Output, YamlReadsBackAsTheSameJson) {
  const json::value value = json::parse(
      R"({"a":{"b":"1","c":1,"d":true,"e":"true","f":null,"g":[],"h":{},"i":["x y",{"k":"# not a comment"}]},)"
      R"("j":"0.1","k":"","l":"a: b","m":"2Gi","n":"no"})");
  const auto read = read_manifests(to_yaml(value), "yaml");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(json::value((*read)[0]), value) << to_yaml(value);
  EXPECT_EQ(json::parse(to_pretty_json(value)), value);
}

std::string frame(const char* stream, uint64_t offset, const std::string& data) {
  return json::serialize(json::object{{"stream", stream}, {"offset", offset}, {"data", to_base64(data)}}) +
         "\n";
}

struct Collected {
  std::string out, err;
  Frames frames{[this](bool is_stderr, std::string_view bytes) { (is_stderr ? err : out) += bytes; }};
};

TEST(Frames, AnySplitGivesTheSameOutput) {
  const std::string wire =
      frame("stdout", 0, "hello ") + "{}\n" + frame("stderr", 6, "oops") +
      frame("stdout", 10, std::string("w\0rld", 5)) +
      "{\"end\":{\"reason\":\"NonZeroExit\",\"exitCode\":3,\"message\":\"\"},\"process\":\"sb-hello-1\"}\n";
  for (size_t step = 1; step < wire.size(); ++step) {
    Collected got;
    for (size_t at = 0; at < wire.size(); at += step) ASSERT_TRUE(got.frames.feed(wire.substr(at, step)));
    EXPECT_EQ(got.out, std::string("hello w\0rld", 11));
    EXPECT_EQ(got.err, "oops");
    ASSERT_TRUE(got.frames.end());
    EXPECT_EQ(exit_code_of(*got.frames.end()), 3);
    EXPECT_EQ(got.frames.end()->process, "sb-hello-1");
  }
}

TEST(Frames, ResumingNeitherLosesNorDoubles) {
  Collected got;
  got.frames.feed(frame("stdout", 0, "abc") + R"({"stream":"std)");
  EXPECT_EQ(got.frames.offset(), 3u);
  got.frames.begin();
  got.frames.feed(frame("stdout", 1, "bcd") + frame("stdout", 0, "ab") + frame("stdout", 4, "ef"));
  EXPECT_EQ(got.out, "abcdef");
  got.frames.feed(frame("stdout", 10, "z"));
  EXPECT_EQ(got.frames.missing(), 4u);
  EXPECT_EQ(got.out, "abcdefz");
}

TEST(Frames, WhatIsNoFrameIsRefused) {
  for (const char* bad :
       {"<html>\n", "[]\n", "{\"stream\":\"stdout\",\"offset\":-1,\"data\":\"\"}\n",
        "{\"stream\":\"stdout\",\"offset\":0,\"data\":\"@\"}\n", "{\"stream\":\"stdout\",\"data\":\"\"}\n"}) {
    Collected got;
    EXPECT_FALSE(got.frames.feed(bad)) << bad;
  }
}

TEST(Frames, ExitCodes) {
  EXPECT_EQ(exit_code_of({"", 0, "", ""}), 0);
  EXPECT_EQ(exit_code_of({"NonZeroExit", 255, "", ""}), 255);
  EXPECT_EQ(exit_code_of({"Signaled", 137, "", ""}), 137);
  EXPECT_EQ(exit_code_of({"StartFailed", 0, "", ""}), 127);
  EXPECT_EQ(exit_code_of({"DeadlineExceeded", 0, "", ""}), 124);
  EXPECT_EQ(exit_code_of({"NodeLost", 0, "", ""}), 1);
}

Error error_of(Code code, std::optional<int> after = {}, const char* reason = "R") {
  return {code, reason, "", {}, after, ""};
}

TEST(Retry, OnlyWhatCanHelp) {
  for (const Code code : {Code::kUnavailable, Code::kTooManyRequests, Code::kDeadlineExceeded})
    EXPECT_TRUE(retry_delay(error_of(code), 1, Seconds(60), 0));
  for (const Code code : {Code::kBadRequest, Code::kNotFound, Code::kConflict, Code::kPaymentRequired,
                          Code::kInternal, Code::kTooLarge, Code::kInvalid, Code::kUnauthenticated})
    EXPECT_FALSE(retry_delay(error_of(code), 1, Seconds(60), 0));
}

TEST(Retry, HonoursRetryAfterAndTheTimeLeft) {
  EXPECT_EQ(retry_delay(error_of(Code::kUnavailable), 1, Seconds(60), 0), Millis(200));
  EXPECT_EQ(retry_delay(error_of(Code::kUnavailable), 3, Seconds(60), 0), Millis(800));
  EXPECT_EQ(retry_delay(error_of(Code::kUnavailable), 50, Seconds(60), 0), Millis(5000));
  EXPECT_EQ(retry_delay(error_of(Code::kTooManyRequests, 7), 1, Seconds(60), 0), Millis(7000));
  EXPECT_FALSE(retry_delay(error_of(Code::kTooManyRequests, 7), 1, Seconds(6), 0));
  EXPECT_EQ(retry_delay(error_of(Code::kUnavailable, 2, "SandboxStarting"), 1, Seconds(60), 0), Millis(200));
  EXPECT_EQ(retry_delay(error_of(Code::kUnavailable, 2, "SandboxStarting"), 9, Seconds(60), 0), Millis(2000));
  for (uint64_t random = 0; random < 1000; random += 7) {
    const auto delay = retry_delay(error_of(Code::kUnavailable, 4), 1, Seconds(60), random);
    EXPECT_GE(*delay, Millis(4000));
    EXPECT_LE(*delay, Millis(5000));
  }
}

TEST(Names, Sandboxes) {
  for (const char* text : {"hello", "sb/hello", "sandbox/hello", "sandboxes/hello"})
    EXPECT_EQ(sandbox_name(text), "hello");
  for (const char* text : {"", "sb/", "pod/hello", "sb/a/b", "sb/..", "a b", "sb/a?x=1", "sb/a%2e"})
    EXPECT_FALSE(sandbox_name(text)) << text;
}

TEST(Names, RemotePaths) {
  EXPECT_EQ(remote_path("sb/hello:/workspace/a:b")->path, "/workspace/a:b");
  EXPECT_EQ(remote_path("sandboxes/hello:/x")->sandbox, "hello");
  for (const char* local : {"./notes.txt", "notes.txt", "c:/x", "dir/a:b", "/abs:x"})
    EXPECT_FALSE(remote_path(local)) << local;
}

TEST(Names, Selections) {
  EXPECT_EQ(selection({"sb/hello"})->targets[0].name, "hello");
  EXPECT_EQ(selection({"sandbox", "hello", "dev"})->targets[1].text(), "sandboxes/dev");
  EXPECT_TRUE(selection({"sandboxes"})->targets.empty());
  EXPECT_EQ(selection({"processes"})->kind, Kind::kProcess);
  EXPECT_EQ(selection({"ev"})->kind, Kind::kEvent);
  EXPECT_EQ(selection({"sb/a", "process/sb-a-1"})->targets[1].path(), "/processes/sb-a-1");
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"pods"}, {"sb/"}, {"pod/a"}, {"sb/a", "b/c"}, {"sb", "../x"}})
    EXPECT_FALSE(selection(wrong)) << wrong[0];
}

TEST(Names, SeveralToChange) {
  const auto texts = [](const std::vector<std::string>& words) {
    std::string out;
    for (const auto& target : *targets_of(words)) out += target.text() + " ";
    return out;
  };
  EXPECT_EQ(texts({"hello"}), "sandboxes/hello ");
  EXPECT_EQ(texts({"a", "sb/b", "process/sb-a-1"}), "sandboxes/a sandboxes/b processes/sb-a-1 ");
  EXPECT_EQ(texts({"sandbox", "a", "b"}), "sandboxes/a sandboxes/b ");
  EXPECT_EQ(texts({"process", "sb-a-1"}), "processes/sb-a-1 ");
  EXPECT_EQ(texts({"sandbox"}), "sandboxes/sandbox ") << "a Sandbox may be called that";
}

TEST(Channels, MessagesAndHowACommandEnded) {
  EXPECT_EQ(channel_message(Channel::kStdin, "ab"), std::string("\0ab", 3));
  EXPECT_EQ(resize_message(24, 80), std::string("\4{\"Width\":80,\"Height\":24}"));
  EXPECT_EQ(close_message(Channel::kStdin), std::string("\xff\0", 2));
  const auto good =
      end_of(R"({"kind":"Status","status":"Success","details":{"process":"sb-a-1","reason":""}})");
  ASSERT_TRUE(good);
  EXPECT_EQ(good->reason + "|" + good->process, "|sb-a-1");
  EXPECT_EQ(exit_code_of(*good), 0);
  const auto bad = end_of(
      R"({"status":"Failure","reason":"NonZeroExitCode","message":"exit code 3","details":{"process":"sb-a-2",)"
      R"("reason":"NonZeroExit","causes":[{"reason":"ExitCode","message":"3"}]}})");
  ASSERT_TRUE(bad);
  EXPECT_EQ(exit_code_of(*bad), 3);
  EXPECT_EQ(bad->reason, "NonZeroExit");
  // Another server's, without our details.
  const auto plain = end_of(
      R"({"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"137"}]}})");
  ASSERT_TRUE(plain);
  EXPECT_EQ(exit_code_of(*plain), 137);
  for (const char* wrong : {"", "{}", "[]", "nonsense", R"({"status":"Maybe"})"})
    EXPECT_FALSE(end_of(wrong)) << wrong;
}

TEST(Settings, BaseUrls) {
  const auto base = [](const char* api, const char* project, std::map<std::string, std::string> environment) {
    environment["NODUS_API_KEY"] = "k";
    const auto made = make_settings(api, project, environment);
    return made ? made->base : made.error().reason;
  };
  EXPECT_EQ(base("http://h/apis/nodus.dev/v1/namespaces/dev", "", {}),
            "http://h/apis/nodus.dev/v1/namespaces/dev");
  EXPECT_EQ(base("http://h/apis/nodus.dev/v1/namespaces/dev/", "other", {}),
            "http://h/apis/nodus.dev/v1/namespaces/other");
  EXPECT_EQ(base("", "", {{"NODUS_API", "http://h/apis/nodus.dev/v1/namespaces/a"}, {"NODUS_PROJECT", "b"}}),
            "http://h/apis/nodus.dev/v1/namespaces/a");
  EXPECT_EQ(base("http://h:1", "", {{"NODUS_PROJECT", "b"}}), "http://h:1/apis/nodus.dev/v1/namespaces/b");
  EXPECT_EQ(base("", "", {}), "LocalFault");
  EXPECT_EQ(base("http://h", "", {}), "LocalFault");
  EXPECT_EQ(base("http://h", "../x", {}), "LocalFault");
  EXPECT_EQ(base("h:1", "a", {}), "LocalFault");
  EXPECT_FALSE(make_settings("http://h", "a", {}));
  EXPECT_FALSE(make_settings("http://h", "a", {{"NODUS_API_KEY", "a\nb"}}));
}

}  // namespace
}  // namespace nodus::cli
