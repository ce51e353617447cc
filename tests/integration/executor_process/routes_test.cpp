// The data path over HTTP: commands and files of a Sandbox, with the real helper.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/json.hpp>
#include <thread>

#include "libs/base/random.hpp"
#include "libs/http/client.hpp"
#include "services/executor/process/routes.hpp"
#include "tests/integration/executor_process/sandbox.hpp"

namespace nodus::executor {
namespace {
namespace json = boost::json;
using test::Runtime;
using test::Sandbox;

class RoutesTest : public testing::TestWithParam<Runtime> {
 protected:
  void SetUp() override {
    sandbox = std::make_unique<Sandbox>(GetParam());
    view.key = {SandboxUid(random_uuid()), 7};
    view.directory = sandbox->directory() / "slot";
    view.run_socket = sandbox->socket();
    view.uid = view.gid = test::kUser;
    view.env = {"PATH=/bin:/usr/bin", "HOME=" + sandbox->inside()};
    view.working_dir = sandbox->inside();
    waiters = std::make_unique<http::Waiters>();
    outbox = std::make_unique<ReportOutbox>(OutboxOptions{sandbox->directory() / "outbox", "m1"},
                                            [](const std::string&) { return Result<void>(); });
    processes = std::make_unique<Processes>(ProcessLimits{}, *outbox,
                                            [this](const std::string& uid) { waiters->notify(uid); });
    ASSERT_TRUE(processes->open(view, Seconds(20)).has_value());
    server = std::make_unique<http::Server>(http::ServerOptions{});
    data_path_routes(*server, *processes, *waiters, {"token", 64ull << 20, Millis(100)});
    ASSERT_TRUE(server->start().has_value());
  }
  void TearDown() override {
    server->stop();
    server.reset();
    processes.reset();
  }

  std::string base(int epoch = 7) {
    return "http://127.0.0.1:" + std::to_string(server->port()) + "/v1/slots/" + view.key.sandbox.str() +
           "/epochs/" + std::to_string(epoch) + "/";
  }
  http::Response call(std::string method, std::string url, std::string body = "",
                      std::string token = "token") {
    http::Client client;
    http::ClientRequest request;
    request.method = std::move(method);
    request.url = std::move(url);
    request.body = std::move(body);
    request.headers.set("Authorization", "Bearer " + token);
    request.response_limit = 200u << 20;
    auto response = client.call(request);
    EXPECT_TRUE(response.has_value()) << response.error().message;
    return response ? *response : http::Response{0, {}, {}};
  }
  std::string file(const std::string& path, const std::string& more = "") {
    return base() + "files?path=" + (path.starts_with("/") ? path : sandbox->inside() + "/" + path) + more;
  }
  std::string command(const std::string& uid, const std::string& script) {
    return json::serialize(
        json::object{{"uid", uid}, {"name", "sb-hello-1"}, {"command", json::array{"sh", "-c", script}}});
  }
  static std::string reason_of(const http::Response& response) { return http::parse_status(response).reason; }

  std::unique_ptr<Sandbox> sandbox;
  SlotView view;
  std::unique_ptr<http::Waiters> waiters;
  std::unique_ptr<ReportOutbox> outbox;
  std::unique_ptr<Processes> processes;
  std::unique_ptr<http::Server> server;
};

// The frames of an answer put together, and its last line.
struct Told {
  std::string out, err;
  json::object last;
  int keep_alives = 0;
};
Told read_frames(const std::string& body) {
  Told told;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find('\n', at);
    EXPECT_NE(end, body.npos);
    told.last = json::parse(body.substr(at, end - at)).as_object();
    at = end + 1;
    if (told.last.empty()) ++told.keep_alives;
    if (!told.last.contains("stream")) continue;
    std::string data;
    EXPECT_TRUE(from_base64(std::string(told.last["data"].as_string()), data));
    (told.last["stream"] == "stdout" ? told.out : told.err) += data;
  }
  return told;
}

TEST_P(RoutesTest, StreamsACommandAndItsEnd) {
  const auto uid = random_uuid();
  const auto body = command(uid, "echo out; echo err >&2; sleep 0.4; echo late; exit 3");
  const auto first = read_frames(call("POST", base() + "processes", body).body);
  EXPECT_EQ(first.out, "out\nlate\n");
  EXPECT_EQ(first.err, "err\n");
  EXPECT_GE(first.keep_alives, 1);
  EXPECT_EQ(first.last.at("process"), "sb-hello-1");
  EXPECT_EQ(first.last.at("end").at("reason"), "NonZeroExit");
  EXPECT_EQ(first.last.at("end").at("exitCode"), 3);
  // Again: not started again, told from where one asks.
  for (size_t offset = 0; offset <= 13; ++offset) {
    const auto again =
        read_frames(call("POST", base() + "processes?offset=" + std::to_string(offset), body).body);
    EXPECT_EQ(again.out.size() + again.err.size(), 13 - offset);
    EXPECT_EQ(again.last.at("end").at("exitCode"), 3);
  }
}

TEST_P(RoutesTest, AttachingNeverStarts) {
  const auto url = base() + "processes";
  const auto body = command(random_uuid(), "echo once");
  const auto unknown = call("POST", url + "?attach=1", body);
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.headers.get("X-Nodus-Reason"), "ProcessUnknown");
  EXPECT_EQ(read_frames(call("POST", url + "?attach=0", body).body).out, "once\n");
  const auto attached = read_frames(call("POST", url + "?attach=1&offset=1", body).body);
  EXPECT_EQ(attached.out, "nce\n");
  EXPECT_EQ(attached.last.at("end").at("exitCode"), 0);
  EXPECT_EQ(call("POST", url + "?attach=yes", body).status, 422);
}

TEST_P(RoutesTest, ManyListenersHearTheSame) {
  const auto body = command(random_uuid(), "seq 1 200000");
  std::vector<std::string> digests(6);
  std::vector<std::thread> threads;
  for (auto& digest : digests)
    threads.emplace_back(
        [&] { digest = sha256_hex(read_frames(call("POST", base() + "processes", body).body).out); });
  for (auto& thread : threads) thread.join();
  std::string expected;
  for (int i = 1; i <= 200000; ++i) expected += std::to_string(i) + "\n";
  for (const auto& digest : digests) EXPECT_EQ(digest, sha256_hex(expected));
}

TEST_P(RoutesTest, AListenerThatLeavesEndsNothing) {
  const auto body = command(random_uuid(), "echo first; while [ ! -e go ]; do sleep 0.05; done; echo second");
  http::Client client;
  http::ClientRequest request;
  request.method = "POST";
  request.url = base() + "processes";
  request.body = body;
  request.headers.set("Authorization", "Bearer token");
  request.on_body = [](std::string_view) { return false; };
  (void)client.call(request);
  EXPECT_EQ(call("PUT", file("go"), "").status, 200);
  EXPECT_EQ(read_frames(call("POST", base() + "processes?offset=6", body).body).out, "second\n");
}

TEST_P(RoutesTest, RefusesWhatIsNotAsked) {
  const auto good = command(random_uuid(), "true");
  EXPECT_EQ(call("POST", base() + "processes", good, "other").status, 401);
  EXPECT_EQ(call("GET", file("x"), "", "").status, 401);
  for (const auto& url : {base(8) + "processes", base(0) + "processes"}) {
    const auto refused = call("POST", url, good);
    EXPECT_EQ(refused.status, 409);
    EXPECT_EQ(refused.headers.get("X-Nodus-Reason"), "SlotNotRunning");
  }
  EXPECT_EQ(call("POST", base() + "processes?offset=-1", good).status, 422);
  EXPECT_EQ(call("POST", base() + "processes", "{").status, 400);
  const auto many = call(
      "POST", base() + "processes",
      R"({"uid":"x","name":"","command":[""],"env":{"A=B":"c"},"workingDir":"x","timeoutMs":0,"stdin":"%"})");
  EXPECT_EQ(many.status, 422);
  std::vector<std::string> fields;
  for (const auto& cause : http::parse_status(many).causes) fields.push_back(cause.field);
  EXPECT_EQ(fields, (std::vector<std::string>{"uid", "name", "command[0]", "env.A=B", "timeoutMs",
                                              "workingDir", "stdin"}));
  EXPECT_EQ(call("POST", base() + "processes", R"({"command":[1],"other":true})").status, 400);
  processes->close_admission(view.key);
  EXPECT_EQ(reason_of(call("POST", base() + "processes", good)), "SlotNotRunning");
  EXPECT_EQ(reason_of(call("GET", file("x"))), "SlotNotRunning");
}

TEST_P(RoutesTest, FilesGoInAndOut) {
  const std::string bytes = random_bytes(3'000'000);
  const auto put = call("PUT", file("new/deep/er/f"), bytes);
  EXPECT_EQ(put.status, 200);
  const auto answer = json::parse(put.body).as_object();
  EXPECT_EQ(answer.at("size").to_number<int>(), 3000000);
  EXPECT_EQ(std::string(answer.at("sha256").as_string()), sha256_hex(bytes));
  const auto got = call("GET", file("new/deep/er/f"));
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(sha256_hex(got.body), sha256_hex(bytes));
  struct stat info{};
  ASSERT_EQ(stat((sandbox->workspace() / "new/deep/er/f").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, test::kUser);
  EXPECT_EQ(info.st_mode & 07777, 0644u);
  EXPECT_EQ(call("PUT", file("empty"), "").status, 200);
  EXPECT_EQ(call("GET", file("empty")).body, "");
  EXPECT_EQ(call("DELETE", file("new")).status, 409);
  EXPECT_EQ(call("DELETE", file("new/deep/er/f")).status, 200);
  EXPECT_EQ(call("DELETE", file("new/deep/er")).status, 200);
  EXPECT_EQ(call("GET", file("new/deep/er/f")).status, 404);
  EXPECT_EQ(call("DELETE", file("new/deep/er/f")).status, 404);
  EXPECT_EQ(read_frames(call("POST", base() + "processes", command(random_uuid(), "ls -a")).body).out,
            ".\n..\nempty\nnew\n");
}

TEST_P(RoutesTest, PutsOnlyOverTheExpectedContent) {
  const std::string empty = sha256_hex("");
  EXPECT_EQ(call("PUT", file("f", "&expectedSHA256=" + empty), "one").status, 200);
  EXPECT_EQ(reason_of(call("PUT", file("f", "&expectedSHA256=" + empty), "two")), "SHA256Mismatch");
  EXPECT_EQ(call("PUT", file("f", "&expectedSHA256=" + sha256_hex("one")), "two").status, 200);
  EXPECT_EQ(call("PUT", file("f", "&expectedSHA256=XYZ"), "two").status, 422);
  EXPECT_EQ(call("GET", file("f")).body, "two");
  // Of many who expect the same, one writes.
  std::atomic<int> won = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      const auto answer =
          call("PUT", file("f", "&expectedSHA256=" + sha256_hex("two")), "three" + std::to_string(i));
      EXPECT_TRUE(answer.status == 200 || answer.status == 412) << answer.status;
      won += answer.status == 200;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(won, 1);
}

TEST_P(RoutesTest, FilesKeepTheirModeAndTheUsersRights) {
  const auto sh = [&](const std::string& script) {
    return read_frames(call("POST", base() + "processes", command(random_uuid(), script)).body).out;
  };
  sh("echo x > run; chmod 750 run; echo x > mine; chmod 0 mine; echo x > readonly; chmod 444 readonly; "
     "mkdir locked; echo x > locked/f; chmod 0 locked; mkdir dir; ln -s run link; mkfifo pipe");
  EXPECT_EQ(call("PUT", file("run"), "changed").status, 200);
  EXPECT_EQ(call("PUT", file("link"), "through").status, 200);
  struct stat info{};
  ASSERT_EQ(lstat((sandbox->workspace() / "run").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0750u);
  EXPECT_EQ(call("GET", file("link")).body, "through");
  for (const char* name : {"mine", "locked/f"}) EXPECT_EQ(call("GET", file(name)).status, 403) << name;
  EXPECT_EQ(call("PUT", file("readonly"), "x").status, 403);
  EXPECT_EQ(call("PUT", file("locked/g"), "x").status, 403);
  EXPECT_EQ(call("DELETE", file("locked/f")).status, 403);
  for (const char* name : {"dir", "pipe"}) {
    EXPECT_EQ(call("GET", file(name)).status, 422) << name;
    EXPECT_EQ(call("PUT", file(name), "x").status, 422) << name;
  }
  EXPECT_EQ(call("PUT", file("/not-for-you"), "x").status, 403);
}

TEST_P(RoutesTest, PathsThatAreNobodysBusinessAreRefused) {
  const auto sh = [&](const std::string& script) {
    return read_frames(call("POST", base() + "processes", command(random_uuid(), script)).body).out;
  };
  sh("ln -s /proc p; ln -s /proc/self/root r; ln -s /proc/self/fd/3 fd; ln -s "
     "../../../../../../proc/1/environ e; "
     "ln -s loop loop; ln -s / root; ln -s root/proc rp");
  const std::string escape = "../../../../../../../../";
  for (const std::string path :
       {"/proc/self/environ", "/proc/1/environ", "/proc/self/root/etc/passwd", "/proc/self/fd/0",
        "/sys/kernel", "/dev/null", "/dev/zero", "/.nodus/helper", "/.run/helper.sock",
        "//proc//self/environ", "/./proc/self/environ", "/etc/../proc/self/environ"})
    EXPECT_EQ(call("GET", file(path)).status, 403) << path;
  for (const std::string path : {"p/self/environ", "r/etc/passwd", "fd", "e", "rp/1/environ"})
    EXPECT_EQ(call("GET", file(path)).status, 403) << path;
  EXPECT_EQ(call("GET", file("loop")).status, 422);
  EXPECT_EQ(call("GET", file(escape + "proc/self/environ")).status, 403);
  for (const std::string path : {"/proc/self/comm", "p/self/comm", "/.run/x", "/.nodus/x", "/dev/shm/x"}) {
    EXPECT_EQ(call("PUT", file(path), "x").status, 403) << path;
    EXPECT_EQ(call("DELETE", file(path)).status, 403) << path;
  }
  for (const std::string path : {"", "relative", "%00", "/a%00b"})
    EXPECT_GE(call("GET", base() + "files?path=" + path).status, 400) << path;
  EXPECT_EQ(call("GET", base() + "files").status, 422);
  EXPECT_EQ(call("GET", file("/" + std::string(300, 'n'))).status, 422);
}

TEST_P(RoutesTest, FilesAboveTheLimitAreRefused) {
  const auto made =
      read_frames(call("POST", base() + "processes",
                       command(random_uuid(), "dd if=/dev/zero of=big bs=1 count=1 seek=67108864 2>&1"))
                      .body);
  EXPECT_EQ(made.last.at("end").at("exitCode"), 0) << made.out;
  EXPECT_EQ(call("GET", file("big")).status, 413);
  const std::string body((64u << 20) + 1, 'x');
  EXPECT_EQ(call("PUT", file("other"), body).status, 413);
  EXPECT_EQ(call("GET", file("other")).status, 404);
  EXPECT_EQ(call("PUT", file("other"), body.substr(1)).status, 200);
  EXPECT_EQ(call("GET", file("other")).body.size(), 64u << 20);
}

INSTANTIATE_TEST_SUITE_P(Runtimes, RoutesTest,
                         testing::Values(Runtime::kPlain, Runtime::kRunc, Runtime::kRunsc),
                         [](const auto& info) { return test::to_text(info.param); });

}  // namespace
}  // namespace nodus::executor
