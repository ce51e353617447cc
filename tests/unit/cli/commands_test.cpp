// The whole CLI against a small server that plays the API.
#include "tests/unit/cli/fake_api.hpp"

namespace nodus::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class Cli : public FakeApi {};

TEST_F(Cli, ApplyCreatesOrFindsUnchanged) {
  int status = 201;
  on("POST", "/sandboxes", [&](const Request&) { return sandbox(status, "Pending"); });
  const std::string path = file("sandbox.yaml", "kind: Sandbox\nmetadata: {name: hello}\n");
  EXPECT_EQ(run({"apply", "-f", path}), 0) << err();
  EXPECT_EQ(out(), "sandbox/hello created\n");
  EXPECT_EQ(seen_[0].headers.get("Authorization"), "Bearer secret-key");
  EXPECT_TRUE(seen_[0].headers.get("Idempotency-Key"));
  EXPECT_EQ(json::parse(seen_[0].body).at("spec").at("image"), "nodus/agent-tools");
  status = 200;
  EXPECT_EQ(run({"apply", "-f", path}), 0);
  EXPECT_EQ(out(), "sandbox/hello unchanged\n");
  EXPECT_EQ(run({"apply", "-f", path, "-o", "name"}), 0);
  EXPECT_EQ(out(), "sandbox/hello\n");
  in_.str("kind: Sandbox\n---\nkind: Sandbox\n");
  EXPECT_EQ(run({"apply", "-f", "-"}), 0);
  EXPECT_EQ(out(), "sandbox/hello unchanged\nsandbox/hello unchanged\n");
  EXPECT_NE(seen_[0].headers.get("Idempotency-Key"), seen_[1].headers.get("Idempotency-Key"));
}

TEST_F(Cli, LocalFaultsAreTwoAndSendNothing) {
  on("POST", "/sandboxes", [&](const Request&) { return sandbox(201, "Pending"); });
  EXPECT_EQ(run({"apply", "-f", (directory_ / "absent").string()}), 2);
  EXPECT_EQ(run({"apply", "-f", file("bad.yaml", "a: [")}), 2);
  EXPECT_EQ(run({"apply", "-f", file("good.yaml", "a: 1"), "-f", file("bad.yaml", "a: [")}), 2);
  EXPECT_EQ(run({"nonsense"}), 2);
  EXPECT_EQ(run({}), 2);
  EXPECT_EQ(run({"get", "pods"}), 2);
  EXPECT_EQ(run({"exec", "sb/hello"}), 2);
  EXPECT_EQ(run({"stop", "sb/a/b"}), 2);
  EXPECT_EQ(run({"--retry-for", "soon", "get", "sb"}), 2);
  EXPECT_EQ(run({"create", "sandbox", "hello", "--nonsense", "1"}), 2);
  EXPECT_EQ(run({"create", "sandbox", "hello", "--label", "novalue"}), 2);
  EXPECT_EQ(run({"wait", "sb/hello", "--for", "luck"}), 2);
  EXPECT_EQ(run({"get", "sb/a", "-l", "x=y"}), 2);
  EXPECT_EQ(run({"shell", "sb/a", "--rm", "--keep"}), 2);
  EXPECT_EQ(run({"stop", "sb/a", "--", "x"}), 2);
  EXPECT_TRUE(seen_.empty());
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_EQ(run({"version"}), 0);
  EXPECT_THAT(out(), HasSubstr("nodus "));
}

TEST_F(Cli, RefusalsAreToldInPlainWords) {
  on("POST", "/sandboxes", [&](const Request&) { return error(Code::kConflict, "AlreadyExists"); });
  EXPECT_EQ(run({"create", "sandbox", "sb/hello", "--cpu", "2"}), 1);
  EXPECT_EQ(out(), "");
  EXPECT_EQ(err(),
            "error: It said no. (AlreadyExists)\n  spec.resources.cpu: must be 0.25 to 64\n"
            "Delete the Sandbox and create it again to change its image, shape or lifecycle.\n");
  EXPECT_THAT(err(), Not(HasSubstr("secret-key")));
}

TEST_F(Cli, RetriesWithOneKeyUntilTheTimeIsUp) {
  int failures = 3;
  on("POST", "/sandboxes", [&](const Request&) {
    return failures-- > 0 ? error(Code::kUnavailable, "Overloaded", 3) : sandbox(201, "Pending");
  });
  EXPECT_EQ(run({"create", "sandbox", "hello"}), 0) << err();
  ASSERT_EQ(seen_.size(), 4u);
  EXPECT_EQ(seen_[0].headers.get("Idempotency-Key"), seen_[3].headers.get("Idempotency-Key"));
  EXPECT_GE(clock_.boot() - Micros(1'000'000), Seconds(9));
  failures = 1'000'000;
  EXPECT_EQ(run({"--retry-for", "20s", "create", "sandbox", "hello"}), 1);
  EXPECT_THAT(err(), HasSubstr("Overloaded"));
}

TEST_F(Cli, NoServerIs69) {
  host_.start();
  const std::string url = host_.url(kBase);
  host_.server.stop();
  EXPECT_EQ(run({"--retry-for", "5s", "get", "sandboxes"}), 69);
  EXPECT_GT(slept_, 2);
}

TEST_F(Cli, GetPrintsTheTable) {
  on("GET", "/sandboxes/hello", [&](const Request&) { return sandbox(200, "Stopped"); });
  on("GET", "/sandboxes", [&](const Request&) {
    return http::json(200, R"({"kind":"SandboxList","items":[)" + sandbox(200, "Running").body + "]}");
  });
  on("GET", "/processes", [&](const Request&) {
    return http::json(
        200,
        R"({"items":[{"metadata":{"name":"sb-hello-12"},"spec":{"sandbox":"hello","command":["sh","-c","echo\n1"]},)"
        R"("status":{"phase":"Ended","reason":"NonZeroExit","exitCode":3,"startedAt":"2023-11-14T22:01:20Z"}}]})");
  });
  EXPECT_EQ(run({"get", "sb/hello"}), 0);
  EXPECT_EQ(out(),
            "NAME    PHASE     ACTIVITY   CPU   MEMORY   GPU   COST      AGE\n"
            "hello   Stopped   Idle       1     2Gi      -     $0.0042   12m\n");
  EXPECT_EQ(run({"get", "sandboxes", "-o", "name"}), 0);
  EXPECT_EQ(out(), "sandbox/hello\n");
  EXPECT_EQ(run({"get", "sandbox", "hello", "-o", "json"}), 0);
  EXPECT_EQ(json::parse(out()), json::parse(sandbox(200, "Stopped").body));
  EXPECT_EQ(run({"get", "processes"}), 0);
  EXPECT_THAT(out(), HasSubstr("sb-hello-12   hello     Ended   NonZeroExit   3      12m   sh -c echo 1\n"));
  EXPECT_EQ(run({"get", "sb/absent"}), 1);
}

TEST_F(Cli, StopAndStartWaitAndPrintNothing) {
  int reads = 0;
  std::string end = "Stopped";
  on("PATCH", "/sandboxes/hello", [&](const Request&) { return sandbox(200, "Stopping"); });
  on("GET", "/sandboxes/hello", [&](const Request&) { return sandbox(200, ++reads < 8 ? "Stopping" : end); });
  EXPECT_EQ(run({"stop", "sb/hello"}), 0) << err();
  EXPECT_EQ(out(), "");
  EXPECT_EQ(err(), "sandboxes/hello is stopping; waiting for it\n");
  EXPECT_EQ(json::parse(seen_[0].body), json::parse(R"({"spec":{"state":"Stopped"}})"));
  EXPECT_EQ(seen_[0].headers.get("Content-Type"), "application/merge-patch+json");
  reads = 0;
  end = "Running";
  EXPECT_EQ(run({"start", "sb/hello", "--quiet"}), 0);
  EXPECT_EQ(out() + err(), "");
  reads = 0;
  end = "Failed";
  EXPECT_EQ(run({"start", "sb/hello"}), 1);
  EXPECT_THAT(err(), HasSubstr("ImagePullFailed"));
  reads = 0;
  EXPECT_EQ(run({"stop", "sb/hello", "--no-wait"}), 0);
  EXPECT_EQ(reads, 0);
}

// What is used all the time is woken before anybody sees it stopped.
TEST_F(Cli, AStopIsDoneWhenALaterStartHasBegun) {
  const auto started = [](int64_t starts) {
    Response response = sandbox(200, "Running");
    auto body = json::parse(response.body);
    body.at("status").as_object()["starts"] = starts;
    response.body = json::serialize(body);
    return response;
  };
  on("PATCH", "/sandboxes/hello", [&](const Request&) { return started(2); });
  on("GET", "/sandboxes/hello", [&, n = 0](const Request&) mutable { return started(++n < 4 ? 2 : 3); });
  EXPECT_EQ(run({"stop", "sb/hello"}), 0) << err();
}

TEST_F(Cli, DeleteWaitsUntilItIsGone) {
  int reads = 0;
  bool replaced = false;
  on("DELETE", "/sandboxes/hello", [&](const Request&) { return sandbox(202, "Terminating"); });
  on("GET", "/sandboxes/hello", [&](const Request&) {
    if (++reads < 3) return sandbox(200, "Terminating");
    return replaced ? sandbox(200, "Pending", "u2") : error(Code::kNotFound, "NotFound");
  });
  EXPECT_EQ(run({"delete", "sb/hello"}), 0);
  EXPECT_EQ(out() + err(), "");
  EXPECT_EQ(reads, 3);
  reads = 0;
  replaced = true;
  EXPECT_EQ(run({"delete", "sb/hello"}), 0);
}

TEST_F(Cli, ExecStreamsAndReturnsTheCommandsCode) {
  on("POST", "/sandboxes/hello/exec", [&](const Request& request) {
    EXPECT_EQ(json::parse(request.body),
              json::parse(R"({"command":["sh","-c","exit 3","--","-x"],"env":{"A":"b=c"},"timeout":"2m"})"));
    Response response;
    response.body = R"({"stream":"stdout","offset":0,"data":"aGVsbG8K"})"
                    "\n{}\n"
                    R"({"stream":"stderr","offset":6,"data":"b29wcwo="})"
                    "\n"
                    R"({"end":{"reason":"NonZeroExit","exitCode":3,"message":""},"process":"sb-hello-1"})"
                    "\n";
    return response;
  });
  EXPECT_EQ(
      run({"exec", "sb/hello", "--timeout", "2m", "--env", "A=b=c", "--", "sh", "-c", "exit 3", "--", "-x"}),
      3)
      << err();
  EXPECT_EQ(out(), "hello\n");
  EXPECT_EQ(err(), "oops\n");
}

TEST_F(Cli, ACommandThatNobodyReadsIsCancelled) {
  std::string cancelled;
  host_.stream("POST", kBase + "/sandboxes/hello/exec", [&](Exchange& exchange) -> Task<> {
    co_await exchange.read_body(1000);
    http::Headers headers;
    headers.set("X-Nodus-Process", "sb-hello-7");
    co_await exchange.begin(200, std::move(headers));
    for (int i = 0; i < 600 && co_await exchange.write("{\"stream\":\"stdout\",\"offset\":" +
                                                       std::to_string(2 * i) + ",\"data\":\"eQo=\"}\n");
         ++i)
      co_await pause(Millis(5));
  });
  on("POST", "/processes/sb-hello-7/cancel", [&](const Request&) {
    cancelled = "sb-hello-7";
    return http::json(202, "{}");
  });
  limit_output(3);
  EXPECT_EQ(run({"exec", "sb/hello", "--", "yes"}), 141);
  EXPECT_EQ(out(), "y\ny\ny\n");
  EXPECT_EQ(cancelled, "sb-hello-7");
}

TEST_F(Cli, ExecWaitsForTheSandboxAndResumesWithoutLoss) {
  int calls = 0;
  std::vector<std::pair<std::string, std::string>> asked;  // key, offset
  host_.stream("POST", kBase + "/sandboxes/hello/exec", [&](Exchange& exchange) -> Task<> {
    asked.emplace_back(exchange.request().headers.get("Idempotency-Key").value_or(""),
                       exchange.request().query_value("offset").value_or(""));
    co_await exchange.read_body(1000);
    if (++calls <= 2) {
      co_await exchange.respond(error(Code::kUnavailable, "SandboxStarting", 2));
      co_return;
    }
    co_await exchange.begin(200, {});
    if (calls == 3) {
      co_await exchange.write("{\"stream\":\"stdout\",\"offset\":0,\"data\":\"YWJj\"}\n{\"stream\":\"stdo");
      co_return;  // the connection breaks
    }
    if (calls == 4) {
      co_await exchange.write("{\"stream\":\"stdout\",\"offset\":3,\"data\":\"ZGVm\"}\n");
      co_await exchange.finish();  // an end of the stream that is no end of the command
      co_return;
    }
    co_await exchange.write(
        "{\"stream\":\"stdout\",\"offset\":6,\"data\":\"Z2hp\"}\n{\"end\":{\"reason\":\"\",\"exitCode\":0}}"
        "\n");
    co_await exchange.finish();
  });
  EXPECT_EQ(run({"exec", "hello", "--", "x"}), 0) << err();
  EXPECT_EQ(out(), "abcdefghi");
  ASSERT_EQ(asked.size(), 5u);
  EXPECT_EQ(asked[3].second, "3");
  EXPECT_EQ(asked[4].second, "6");
  for (const auto& [key, _] : asked) EXPECT_EQ(key, asked[0].first);
}

TEST_F(Cli, ExecSaysHowACommandEnded) {
  on("POST", "/sandboxes/hello/exec", [&](const Request&) {
    Response response;
    response.body = R"({"end":{"reason":"StartFailed","exitCode":0,"message":"no such program: x"}})"
                    "\n";
    return response;
  });
  on("POST", "/sandboxes/broke/exec",
     [&](const Request&) { return error(Code::kPaymentRequired, "InsufficientCredits"); });
  EXPECT_EQ(run({"exec", "sb/hello", "--", "x"}), 127);
  EXPECT_EQ(err(), "error: the command ended with StartFailed: no such program: x\n");
  EXPECT_EQ(run({"exec", "sb/broke", "--", "x"}), 1);
  EXPECT_THAT(err(), HasSubstr("Add credits"));
}

TEST_F(Cli, CopiesInAndOut) {
  std::string stored;
  int failures = 1;
  on("PUT", "/sandboxes/hello/files", [&](const Request& request) {
    if (failures-- > 0) return error(Code::kUnavailable, "SandboxStarting", 2);
    stored = request.body;
    return http::json(200, "{}");
  });
  on("GET", "/sandboxes/hello/files", [&](const Request& request) {
    if (request.query_value("path") != "/workspace/a b&c.txt") return error(Code::kNotFound, "NotFound");
    Response response;
    response.body = stored;
    return response;
  });
  const std::string content = "written from my laptop\n" + std::string(300'000, 'x');
  EXPECT_EQ(run({"cp", file("notes.txt", content), "sb/hello:/workspace/a b&c.txt"}), 0) << err();
  EXPECT_EQ(out() + err(), "");
  EXPECT_EQ(stored, content);
  EXPECT_EQ(seen_.back().query_value("path"), "/workspace/a b&c.txt");
  EXPECT_EQ(seen_.front().headers.get("Idempotency-Key"), seen_.back().headers.get("Idempotency-Key"));
  EXPECT_EQ(run({"cp", file("notes.txt", ""), "sb/hello:/workspace/"}), 0);
  EXPECT_EQ(seen_.back().query_value("path"), "/workspace/notes.txt");
  stored = content;
  EXPECT_EQ(run({"cp", "sb/hello:/workspace/a b&c.txt", (directory_ / "back").string()}), 0) << err();
  EXPECT_EQ(slurp((directory_ / "back").string()), content);
  EXPECT_EQ(run({"cp", "sb/hello:/workspace/a b&c.txt", directory_.string()}), 0) << err();
  EXPECT_EQ(slurp((directory_ / "a b&c.txt").string()), content);
}

TEST_F(Cli, CopyRefusesPlainly) {
  on("GET", "/sandboxes/hello/files", [&](const Request&) { return error(Code::kNotFound, "NotFound"); });
  const std::string kept = file("kept", "old");
  EXPECT_EQ(run({"cp", "sb/hello:/absent", kept}), 1);
  EXPECT_EQ(slurp(kept), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
  EXPECT_EQ(run({"cp", directory_.string(), "sb/hello:/workspace/x"}), 2);
  EXPECT_THAT(err(), HasSubstr("is a directory"));
  EXPECT_EQ(run({"cp", "a", "b"}), 2);
  EXPECT_EQ(run({"cp", "sb/a:/x", "sb/b:/x"}), 2);
  EXPECT_EQ(run({"cp", kept, "sb/hello:relative"}), 2);
  EXPECT_EQ(run({"cp", (directory_ / "absent").string(), "sb/hello:/x"}), 2);
}

TEST_F(Cli, BillShowsLinesAndTotals) {
  on("GET", "/bill", [&](const Request& request) {
    EXPECT_EQ(request.query_value("sandbox"), "hello");
    return http::json(
        200,
        R"({"kind":"Bill","lines":[{"sandbox":"hello","kind":"Running","from":"2026-01-01T00:00:00Z","to":null,)"
        R"("seconds":60,"rate":"0.000005833333","amount":"0.000349999980","waived":false}],"total":"0.000349999980","balance":"99.9"})");
  });
  EXPECT_EQ(run({"bill", "sb/hello"}), 0) << err();
  EXPECT_THAT(
      out(),
      HasSubstr(
          "hello     Running   2026-01-01T00:00:00Z   -    60        0.000005833333   0.000349999980\n"));
  EXPECT_THAT(out(), HasSubstr("BALANCE   99.9\n"));
}

TEST_F(Cli, BillExportPrintsWhatComes) {
  host_.add("GET", "/apis/nodus.dev/v1/organizations",
            [&](const Request&) { return http::json(200, R"({"items":[{"metadata":{"name":"acme"}}]})"); });
  host_.add("GET", "/apis/nodus.dev/v1/organizations/acme/export", [&](const Request& request) {
    note(request);
    Response response;
    response.body = "A,B\r\n1,2\r\n";
    return response;
  });
  EXPECT_EQ(run({"bill", "export", "--month", "2026-11", "--format", "focus-1.2"}), 0) << err();
  EXPECT_EQ(out(), "A,B\r\n1,2\r\n");
  EXPECT_EQ(seen_.back().query_value("month"), "2026-11");
  EXPECT_EQ(seen_.back().query_value("format"), "focus-1.2");
  EXPECT_EQ(run({"bill", "export"}), 2);
  EXPECT_EQ(run({"bill", "export", "--month", "2026-11", "--format", "xml"}), 2);
}

TEST_F(Cli, InvoicesAreListedAndDescribed) {
  host_.add("GET", "/apis/nodus.dev/v1/organizations",
            [&](const Request&) { return http::json(200, R"({"items":[{"metadata":{"name":"acme"}}]})"); });
  const std::string invoice =
      R"({"kind":"Invoice","number":"NODUS-00000001","month":"2026-11","total":"0.58","currency":"USD",)"
      R"("issuedAt":"2026-12-01T01:00:00Z","lines":[{"type":"Usage","month":"2026-11","project":"web",)"
      R"("kind":"Running","reason":"Charged","seconds":64,"amount":"0.576"}]})";
  host_.add("GET", "/apis/nodus.dev/v1/organizations/acme/invoices", [&](const Request& request) {
    note(request);
    const bool second = request.query_value("continue").has_value();
    return http::json(200, R"({"kind":"InvoiceList","items":[)" + (second ? "" : invoice) + "]" +
                               (second ? "}" : R"(,"continue":"2026-11"})"));
  });
  host_.add("GET", "/apis/nodus.dev/v1/organizations/acme/invoices/{number}",
            [&](const Request&) { return http::json(200, invoice); });
  EXPECT_EQ(run({"get", "invoices"}), 0) << err();
  EXPECT_EQ(out(),
            "NUMBER           MONTH     TOTAL   CURRENCY   ISSUED\n"
            "NODUS-00000001   2026-11   0.58    USD        2026-12-01T01:00:00Z\n");
  EXPECT_EQ(seen_.back().query_value("continue"), "2026-11");
  EXPECT_EQ(run({"get", "invoices", "-o", "name"}), 0);
  EXPECT_EQ(out(), "invoice/NODUS-00000001\n");
  EXPECT_EQ(run({"describe", "invoice", "NODUS-00000001"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("Usage   2026-11   web       Running   Charged   64        0.576\n"));
  EXPECT_EQ(run({"get", "invoice/NODUS-00000001", "-o", "json"}), 0) << err();
  EXPECT_EQ(json::parse(out()).at("total"), "0.58");
  EXPECT_EQ(run({"get", "invoices", "-w"}), 2);
  EXPECT_EQ(run({"describe", "invoice"}), 2);
}

TEST_F(Cli, BillOfAnOrganizationIsReadPageByPage) {
  host_.add("GET", "/apis/nodus.dev/v1/organizations",
            [&](const Request&) { return http::json(200, R"({"items":[{"metadata":{"name":"acme"}}]})"); });
  host_.add("GET", "/apis/nodus.dev/v1/organizations/acme/bill", [&](const Request& request) {
    note(request);
    const bool second = request.query_value("continue").has_value();
    return http::json(200,
                      std::string(R"({"kind":"Bill","by":"project","groups":[{"project":")") +
                          (second ? "=web" : "api,dev") +
                          R"(","seconds":60,"waivedSeconds":0,"open":"0","amount":"-1.5"}],"total":"3")" +
                          (second ? "}" : R"(,"continue":"project:a"})"));
  });
  EXPECT_EQ(run({"bill", "--organization", "--by", "project", "--month", "2026-11", "-o", "csv"}), 0)
      << err();
  EXPECT_EQ(out(), "PROJECT,SECONDS,WAIVED,OPEN,AMOUNT\r\n\"api,dev\",60,0,0,-1.5\r\n'=web,60,0,0,-1.5\r\n");
  EXPECT_EQ(seen_[0].query_value("by"), "project");
  EXPECT_EQ(seen_[1].query_value("continue"), "project:a");
  EXPECT_EQ(run({"bill", "--organization", "--by", "project"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("=web      60        0        0      -1.5\n\nTOTAL     3\n"));
  EXPECT_EQ(run({"bill", "--organization", "-o", "json", "--by", "project"}), 0) << err();
  EXPECT_EQ(json::parse(out()).at("groups").as_array().size(), 2u);
}

TEST_F(Cli, AQuoteSaysTheRateAndWhetherItCanStart) {
  std::string asked;
  on("GET", "/quote", [&](const Request& request) {
    asked = request.target.substr(request.target.find('?') + 1);
    return http::json(200, R"({"kind":"Quote","resources":{"cpu":"2","memory":"4Gi","disk":"10Gi"},
      "priceVersion":"example-1","ratePerSecond":"0.000014625000","ratePerHour":"0.052650000000",
      "hold":"0.001096875000","holdSeconds":75,"available":"0.000500000000","funded":false})");
  });
  EXPECT_EQ(run({"quote", "--cpu", "2", "--memory", "4Gi"}), 0) << err();
  EXPECT_EQ(asked, "cpu=2&memory=4Gi");
  EXPECT_THAT(out(), HasSubstr("$0.000014625000 a second, $0.052650000000 an hour"));
  EXPECT_THAT(out(), HasSubstr("not enough to start"));
}

}  // namespace
}  // namespace nodus::cli
