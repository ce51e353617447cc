// get, events, describe, wait, logs and what watches, against a small server that plays the API.
#include "tests/unit/cli/fake_api.hpp"

namespace nodus::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class Reading : public FakeApi {
 protected:
  // A watch that sends these lines, and then nothing until the client goes.
  void watches(const std::string& path, std::vector<std::string> lines, bool stays = true) {
    host_.stream("GET", kBase + path, [this, lines, stays](Exchange& exchange) -> Task<> {
      const auto& request = exchange.request();
      if (request.query_value("watch") != "true") {
        note(request);
        co_await exchange.respond(http::json(200, list_));
        co_return;
      }
      note(request);
      co_await exchange.begin(200, {});
      for (const auto& line : lines) co_await exchange.write(line + "\n");
      // Longer than a client that has seen enough stays.
      for (int i = 0; stays && i < 600 && co_await exchange.write("\n"); ++i) co_await pause(Millis(20));
    });
  }
  static std::string change(const char* type, const char* phase, int version) {
    return std::string(R"({"type":")") + type +
           R"(","object":{"kind":"Sandbox","metadata":{"name":"hello","uid":"u1",)" +
           R"("resourceVersion":")" + std::to_string(version) + R"("},"status":{"phase":")" + phase +
           R"("}}})";
  }
  std::string list_ = R"({"kind":"SandboxList","metadata":{"resourceVersion":"7"},"items":[]})";
};

TEST_F(Reading, ListsAreReadWhole) {
  on("GET", "/sandboxes", [&](const Request& request) {
    const bool first = !request.query_value("continue");
    return http::json(200, std::string(R"({"items":[)") + sandbox(200, "Running").body +
                               R"(],"metadata":{"continue":")" + (first ? "next" : "") + R"("}})");
  });
  EXPECT_EQ(run({"get", "sb", "-l", "app=web", "-o", "name"}), 0) << err();
  EXPECT_EQ(out(), "sandbox/hello\nsandbox/hello\n");
  EXPECT_EQ(seen_[0].query_value("labelSelector"), "app=web");
  EXPECT_EQ(seen_[1].query_value("continue"), "next");
}

TEST_F(Reading, SeveralByNameAndOneThatIsMissing) {
  on("GET", "/sandboxes/hello", [&](const Request&) { return sandbox(200, "Running"); });
  on("GET", "/sandboxes/none", [&](const Request&) { return error(Code::kNotFound, "NotFound"); });
  EXPECT_EQ(run({"get", "sb/hello", "sb/none"}), 1);
  EXPECT_THAT(out(), HasSubstr("hello   Running"));
  EXPECT_THAT(err(), HasSubstr("NotFound"));
  EXPECT_EQ(run({"get", "sb", "hello", "hello", "-o", "json"}), 0);
  EXPECT_EQ(json::parse(out()).at("kind"), "List");
  EXPECT_EQ(json::parse(out()).at("items").as_array().size(), 2u);
}

TEST_F(Reading, WatchPrintsChangesUnderTheSameHead) {
  list_ =
      std::string(R"({"metadata":{"resourceVersion":"7"},"items":[)") + sandbox(200, "Pending").body + "]}";
  watches("/sandboxes", {R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8"}}})",
                         change("MODIFIED", "Running", 9), change("DELETED", "Terminating", 10),
                         change("ADDED", "Pending", 11)});
  limit_output(4);
  EXPECT_EQ(run({"get", "sandboxes", "-w"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("NAME    PHASE     ACTIVITY"));
  EXPECT_THAT(out(), HasSubstr("\nhello   Running   -"));
  EXPECT_THAT(out(), HasSubstr("\nhello   Deleted   -"));
  EXPECT_EQ(seen_[1].query_value("resourceVersion"), "7");
}

TEST_F(Reading, AnOldVersionIsListedAnew) {
  int lists = 0;
  host_.stream("GET", kBase + "/sandboxes", [&](Exchange& exchange) -> Task<> {
    if (exchange.request().query_value("watch") == "true") {
      co_await exchange.respond(http::json(
          200, std::string(R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}})") +
                   "\n"));
      co_return;
    }
    co_await exchange.respond(++lists < 3 ? http::json(200, list_) : error(Code::kForbidden, "Forbidden"));
  });
  EXPECT_EQ(run({"get", "sandboxes", "-w"}), 1);
  EXPECT_EQ(lists, 3);
}

TEST_F(Reading, WaitWatchesInsteadOfSleeping) {
  on("GET", "/sandboxes/hello", [&](const Request&) { return sandbox(200, "Starting"); });
  watches("/sandboxes", {change("MODIFIED", "Starting", 8), change("MODIFIED", "Running", 9)});
  EXPECT_EQ(run({"wait", "sb/hello", "--for=phase=running"}), 0) << err();
  EXPECT_EQ(out(), "sandbox/hello condition met\n");
  EXPECT_EQ(slept_, 0);
  EXPECT_EQ(seen_[1].query_value("fieldSelector"), "metadata.name=hello");
}

TEST_F(Reading, WaitForConditionsDeletionAndNotForEver) {
  std::string condition = "False";
  on("GET", "/sandboxes/hello", [&](const Request&) {
    return http::json(200,
                      R"({"metadata":{"name":"hello","uid":"u"},"status":{"phase":"Starting","conditions":[)"
                      R"({"type":"Ready","status":")" +
                          condition + R"("}]}})");
  });
  EXPECT_EQ(run({"wait", "sb/hello", "--for=condition=Ready", "--timeout=5s"}), 124);
  EXPECT_THAT(err(), HasSubstr("sandboxes/hello is still not yet condition=Ready"));
  EXPECT_EQ(run({"wait", "sb/hello", "--for=condition=Ready=False"}), 0);
  condition = "True";
  EXPECT_EQ(run({"wait", "sb/hello", "--for=condition=ready"}), 0);
}

TEST_F(Reading, WaitEndsWhenItCanNoLongerCome) {
  on("GET", "/sandboxes/hello", [&](const Request&) { return sandbox(200, "Failed"); });
  EXPECT_EQ(run({"wait", "sb/hello", "--for=phase=Running"}), 1);
  EXPECT_THAT(err(), HasSubstr("sandboxes/hello is Failed: ImagePullFailed"));
  EXPECT_EQ(run({"wait", "sb/hello", "--for=phase=Failed"}), 0);
}

TEST_F(Reading, WaitForTheEndOfOne) {
  on("GET", "/sandboxes/gone", [&](const Request&) { return error(Code::kNotFound, "NotFound"); });
  EXPECT_EQ(run({"wait", "sb/gone", "--for=delete"}), 0);
  EXPECT_EQ(out(), "sandbox/gone deleted\n");
  EXPECT_EQ(run({"wait", "sb/gone", "--for=phase=Running"}), 1);
}

TEST_F(Reading, AStartingSandboxIsWatchedAndThenAskedAgain) {
  int calls = 0;
  on("PUT", "/sandboxes/hello/files", [&](const Request&) {
    return ++calls == 1 ? error(Code::kUnavailable, "SandboxStarting", 2) : http::json(200, "{}");
  });
  watches("/sandboxes", {change("ADDED", "Starting", 8), change("MODIFIED", "Running", 9)});
  EXPECT_EQ(run({"cp", file("a", "x"), "sb/hello:/workspace/a"}), 0) << err();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(slept_, 0) << "it was watched";
}

TEST_F(Reading, WhatIsReadyAlreadyIsNotAskedInALoop) {
  int calls = 0;
  on("PUT", "/sandboxes/hello/files", [&](const Request&) {
    return ++calls < 4 ? error(Code::kUnavailable, "SandboxStarting", 2) : http::json(200, "{}");
  });
  watches("/sandboxes", {change("ADDED", "Running", 8)});
  EXPECT_EQ(run({"cp", file("a", "x"), "sb/hello:/workspace/a"}), 0) << err();
  EXPECT_EQ(slept_, 3);
}

TEST_F(Reading, EventsOfOneObject) {
  on("GET", "/events", [&](const Request&) {
    return http::json(
        200,
        R"({"items":[{"type":"Warning","reason":"Late","message":"b\u001b[2J","lastTimestamp":"2023-11-14T22:13:00Z",)"
        R"("involvedObject":{"kind":"Sandbox","name":"hello"}},{"type":"Normal","reason":"Early","message":"a",)"
        R"("lastTimestamp":"2023-11-14T22:12:00Z","involvedObject":{"kind":"Sandbox","name":"hello"}}]})");
  });
  EXPECT_EQ(run({"events", "sb/hello"}), 0) << err();
  EXPECT_EQ(seen_[0].query_value("fieldSelector"), "involvedObject.kind=Sandbox,involvedObject.name=hello");
  EXPECT_THAT(out(), HasSubstr("LAST SEEN   TYPE      REASON   OBJECT          MESSAGE\n"));
  EXPECT_LT(out().find("Early"), out().find("Late"));
  EXPECT_THAT(out(), Not(HasSubstr("\x1b"))) << "nothing that moves a terminal's cursor";
}

TEST_F(Reading, DescribeShowsAllOfIt) {
  on("GET", "/sandboxes/hello", [&](const Request&) {
    return http::json(
        200,
        R"({"kind":"Sandbox","metadata":{"name":"hello","namespace":"dev","uid":"u1","labels":{"app":"web"}},)"
        R"("spec":{"image":"nodus/agent-tools","resources":{"cpu":"1","memory":"2Gi","disk":"10Gi"}},)"
        R"("status":{"phase":"Running","cost":"0.0042","rate":"0.000005","awakeBecause":"command",)"
        R"("next":{"action":"Stop","reason":"Idle","at":"2023-11-14T22:18:20Z","message":"Unused."},)"
        R"("restorePoint":{"at":"2023-11-14T22:03:20Z","sizeBytes":2048},)"
        R"("conditions":[{"type":"Ready","status":"True","reason":"Running","lastTransitionTime":"2023-11-14T22:03:20Z"}]}})");
  });
  EXPECT_EQ(run({"describe", "sb/hello"}), 0) << err();
  for (const char* part :
       {"Name:           hello\n", "Labels:         app=web\n", "Awake because:  command\n",
        "Next:           Stop in 5m (Idle). Unused.\n", "2.0 KiB",
        "Cost:           $0.0042, at $0.000005 a second\n", "resources     1 vCPU, 2Gi memory, 10Gi disk\n",
        "Ready   True     Running   10m\n"})
    EXPECT_THAT(out(), HasSubstr(part));
}

TEST_F(Reading, AWarningComesBeforeMaxLifetimeDeletesFiles) {
  std::string end = "2023-11-15T22:13:20Z";  // a day away
  on("GET", "/sandboxes/hello", [&](const Request&) {
    return http::json(
        200, R"({"kind":"Sandbox","metadata":{"name":"hello"},"spec":{"lifecycle":{"maxLifetime":"24h"}},)"
             R"("status":{"phase":"Running","deletesAt":")" +
                 end + R"("}})");
  });
  EXPECT_EQ(run({"get", "sb/hello"}), 0);
  EXPECT_EQ(err(), "");
  end = "2023-11-14T22:23:20Z";  // ten minutes away
  EXPECT_EQ(run({"get", "sb/hello"}), 0);
  EXPECT_EQ(err(),
            "warning: sandboxes/hello is deleted in 10m, with its files, because its maxLifetime ends: copy "
            "out what you need.\n");
}

TEST_F(Reading, LogsOfTheLatestCommandGoOnWhereTheyBroke) {
  on("GET", "/sandboxes/hello", [&](const Request&) { return sandbox(200, "Running"); });
  on("GET", "/processes", [&](const Request&) {
    return http::json(
        200, R"({"items":[{"metadata":{"name":"sb-hello-1","creationTimestamp":"2026-01-01T00:00:00Z"}},)"
             R"({"metadata":{"name":"sb-hello-2","creationTimestamp":"2026-01-01T00:00:01Z"}}]})");
  });
  int calls = 0;
  host_.stream("GET", kBase + "/processes/sb-hello-2/log", [&](Exchange& exchange) -> Task<> {
    note(exchange.request());
    co_await exchange.begin(200, {});
    if (++calls == 1) {
      co_await exchange.write("{\"stream\":\"stdout\",\"offset\":0,\"data\":\"YWJj\"}\n{\"stream\":\"stdo");
      co_return;  // the connection breaks
    }
    co_await exchange.write(
        "{\"stream\":\"stderr\",\"offset\":3,\"data\":\"ZGVm\"}\n{\"end\":{\"reason\":\"\"}}\n");
    co_await exchange.finish();
  });
  EXPECT_EQ(run({"logs", "sb/hello", "-f"}), 0) << err();
  EXPECT_EQ(out() + "|" + err(), "abc|def");
  EXPECT_EQ(seen_.back().query_value("offset"), "3");
}

TEST_F(Reading, DeleteOfSeveralAndOfACommand) {
  for (const char* name : {"a", "b"}) {
    on("DELETE", std::string("/sandboxes/") + name,
       [&](const Request&) { return sandbox(202, "Terminating"); });
    on("GET", std::string("/sandboxes/") + name,
       [&](const Request&) { return error(Code::kNotFound, "NotFound"); });
  }
  on("DELETE", "/processes/sb-a-1", [&](const Request&) { return http::json(202, "{}"); });
  on("GET", "/processes/sb-a-1",
     [&](const Request&) { return http::json(200, R"({"status":{"phase":"Ended","reason":"Cancelled"}})"); });
  EXPECT_EQ(run({"delete", "sb/a", "b"}), 0) << err();
  ASSERT_EQ(seen_.size(), 4u);
  EXPECT_EQ(seen_[1].method, "DELETE") << "both are asked for before one is waited for";
  EXPECT_EQ(run({"delete", "process/sb-a-1"}), 0) << err();
  EXPECT_EQ(run({"delete", "--ignore-not-found", "sb/none"}), 0) << err();
  EXPECT_EQ(run({"delete", "sb/none", "sb/a"}), 1);
}

TEST_F(Reading, CompletionKnowsCommandsFlagsAndNames) {
  on("GET", "/sandboxes",
     [&](const Request&) { return http::json(200, R"({"items":[)" + sandbox(200, "Running").body + "]}"); });
  EXPECT_EQ(run({"completion", "bash"}), 0);
  EXPECT_THAT(out(), HasSubstr("complete"));
  const auto completes = [&](const std::string& line) {
    completing_ = line;
    EXPECT_EQ(run({"__complete"}), 0);
    return out();
  };
  EXPECT_EQ(completes("nodus desc"), "describe\n");
  EXPECT_EQ(completes("nodus stop h"), "");
  EXPECT_EQ(completes("nodus stop sb/h"), "sb/hello\n");
  EXPECT_THAT(completes("nodus exec --t"), HasSubstr("--timeout\n"));
  EXPECT_EQ(completes("nodus exec sb/hello -- rm -"), "");
}

}  // namespace
}  // namespace nodus::cli
