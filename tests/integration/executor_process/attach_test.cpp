// Terminals, streamed stdin, signals and cancel over the data path, with the real helper.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <thread>

#include "libs/base/random.hpp"
#include "libs/http/client.hpp"
#include "libs/http/websocket_client.hpp"
#include "services/executor/process/routes.hpp"
#include "tests/integration/executor_process/sandbox.hpp"

namespace nodus::executor {
namespace {
namespace json = boost::json;
using test::eventually;
using test::Runtime;
using test::Sandbox;

// One client of a command, with what it has heard.
struct Client {
  std::unique_ptr<http::WebSocketClient> socket;
  std::string out, err, status;
  bool whole = false;  // closed as it should be

  // Reads until `done` or the end; false: the connection broke, or 60 s passed.
  template <class Done>
  bool read_until(Done done) {
    const auto deadline = std::chrono::steady_clock::now() + Seconds(20);
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      auto message = socket->read(Millis(500));
      if (!message) return whole = socket->close_code() == 1000, done();
      if (!*message || (*message)->empty()) continue;
      const std::string data = (*message)->substr(1);
      const int channel = (*message)->front();
      (channel == 1 ? out : channel == 2 ? err : status) += data;
    }
    return true;
  }
  bool sees(const std::string& text) {
    return read_until([&] { return out.find(text) != out.npos; });
  }
  json::object end() {
    read_until([&] { return whole; });
    EXPECT_TRUE(whole);
    EXPECT_FALSE(status.empty());
    return status.empty() ? json::object() : json::parse(status).as_object();
  }
  void type(const std::string& text) { EXPECT_TRUE(socket->write(std::string(1, '\0') + text)); }
  void close_stdin() { EXPECT_TRUE(socket->write(std::string("\xff\0", 2))); }
  void resize(int width, int height) {
    EXPECT_TRUE(socket->write("\x04" + json::serialize(json::object{{"Width", width}, {"Height", height}})));
  }
};

class AttachTest : public testing::TestWithParam<Runtime> {
 protected:
  void SetUp() override {
    sandbox = std::make_unique<Sandbox>(GetParam());
    view.key = {SandboxUid(random_uuid()), 7};
    view.directory = sandbox->directory() / "slot";
    view.run_socket = sandbox->socket();
    view.uid = view.gid = test::kUser;
    view.env = {"PATH=/bin:/usr/bin", "HOME=" + sandbox->inside()};
    view.working_dir = sandbox->inside();
    start_node();
  }
  void TearDown() override { stop_node(); }
  void start_node() {
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
  void stop_node() {
    server->stop(Millis(0));
    server.reset();
    processes.reset();
    outbox.reset();
  }

  std::string base() {
    return "http://127.0.0.1:" + std::to_string(server->port()) + "/v1/slots/" + view.key.sandbox.str() +
           "/epochs/7/processes";
  }
  http::Response post(const std::string& rest, const std::string& body) {
    http::Client client;
    http::ClientRequest request;
    request.method = "POST";
    request.url = base() + rest;
    request.body = body;
    request.headers.set("Authorization", "Bearer token");
    auto response = client.call(request);
    EXPECT_TRUE(response.has_value()) << response.error().message;
    return response ? *response : http::Response{};
  }
  std::string start(const std::vector<std::string>& argv, json::object more) {
    const std::string uid = random_uuid();
    more["uid"] = uid;
    more["name"] = "sb-hello-1";
    more["command"] = json::array(argv.begin(), argv.end());
    const auto answer = post("?detach=1", json::serialize(more));
    EXPECT_EQ(answer.status, 202) << answer.body;
    return uid;
  }
  std::string terminal(const std::vector<std::string>& argv) {
    return start(argv, {{"tty", true}, {"stdinOpen", true}, {"rows", 30}, {"cols", 100}});
  }
  Result<std::unique_ptr<http::WebSocketClient>> open(const std::string& uid, const std::string& query,
                                                      const std::string& protocol) {
    http::WebSocketTarget target;
    target.url = base() + "/" + uid + "/attach?" + query;
    target.headers.set("Authorization", "Bearer token");
    target.protocols = {protocol};
    return http::WebSocketClient::open(target);
  }
  Client attach(const std::string& uid, const std::string& query = "stdin=true&stdout=true&stderr=true",
                const std::string& protocol = "v5.channel.k8s.io") {
    auto socket = open(uid, query, protocol);
    EXPECT_TRUE(socket.has_value()) << (socket ? "" : socket.error().message);
    EXPECT_EQ((*socket)->protocol(), protocol);
    return {std::move(*socket), "", "", ""};
  }
  // Something in the shell's foreground, which has it when it speaks.
  void run_in(Client& client) {
    const std::string turn = std::to_string(++turns);
    client.type("sh -c 'echo turn-$((0+" + turn + ")); exec sleep 1000'\n");
    ASSERT_TRUE(client.sees("turn-" + turn)) << client.out;
    ASSERT_TRUE(eventually([&] { return busy(); }));  // what runs in a terminal counts
  }
  bool busy() { return processes->activity(view.key).busy; }
  std::string reason_of(const json::object& status) {
    return std::string(status.at("details").as_object().at("reason").as_string());
  }
  static std::string exit_code_of(const json::object& status) {
    return std::string(
        status.at("details").as_object().at("causes").as_array().at(0).as_object().at("message").as_string());
  }

  int turns = 0;
  std::unique_ptr<Sandbox> sandbox;
  SlotView view;
  std::unique_ptr<http::Waiters> waiters;
  std::unique_ptr<ReportOutbox> outbox;
  std::unique_ptr<Processes> processes;
  std::unique_ptr<http::Server> server;
};

TEST_P(AttachTest, ATerminalHasASizeAControllingTerminalAndAnExitCode) {
  auto client = attach(terminal({"sh"}));
  client.type("stty size; tty; ls -l $(tty) | cut -c1-10; echo $TERM; echo is-$((40+2)) > /dev/tty\n");
  EXPECT_TRUE(client.sees("is-42")) << client.out;
  EXPECT_NE(client.out.find("30 100\r\n"), client.out.npos) << client.out;
  EXPECT_NE(client.out.find("/dev/pts/"), client.out.npos) << client.out;
  EXPECT_NE(client.out.find("xterm"), client.out.npos) << client.out;
  client.resize(132, 43);
  client.type("stty size; echo size-$((1+1))\n");
  EXPECT_TRUE(client.sees("size-2"));
  EXPECT_NE(client.out.find("43 132\r\n"), client.out.npos) << client.out;
  client.type("exit 5\n");
  const auto end = client.end();
  EXPECT_EQ(end.at("status"), "Failure");
  EXPECT_EQ(end.at("reason"), "NonZeroExitCode");
  EXPECT_EQ(exit_code_of(end), "5");
  EXPECT_EQ(reason_of(end), "NonZeroExit");
  EXPECT_EQ(end.at("details").as_object().at("process"), "sb-hello-1");
}

TEST_P(AttachTest, ControlCReachesTheForegroundAndNotTheShell) {
  auto client = attach(terminal({"sh"}));
  for (const auto& [key, code] : {std::pair{"\x03", "130"}, std::pair{"\x1c", "131"}}) {
    run_in(client);
    client.type(key);
    if (!eventually([&] { return !busy(); }, 10)) {
      client.read_until([] { return false; });
      FAIL() << client.out;
    }
    client.type("echo after-$?\n");
    EXPECT_TRUE(client.sees(std::string("after-") + code)) << client.out;
  }
  // A new size is told to the foreground.
  client.type(
      "sh -c 'trap \"echo window-$((1+1))\" WINCH; echo set-$((1+1)); while :; do sleep 0.05; done'\n");
  EXPECT_TRUE(client.sees("set-2"));
  client.resize(90, 40);
  EXPECT_TRUE(client.sees("window-2")) << client.out;
  client.type("\x03");
  ASSERT_TRUE(eventually([&] { return !busy(); }, 20)) << client.out;
  client.type("exit 4\n");
  EXPECT_EQ(exit_code_of(client.end()), "4");
}

TEST_P(AttachTest, ASilentTerminalIsIdleAndInputMovesTheClock) {
  const auto uid = terminal({"sh"});
  auto client = attach(uid);
  client.type("echo ready-$((1+1))\n");
  EXPECT_TRUE(client.sees("ready-2"));
  EXPECT_TRUE(eventually([&] { return !busy(); }));
  const auto before = processes->activity(view.key).last;
  EXPECT_EQ(processes->activity(view.key).last, before);
  client.type(" ");
  EXPECT_TRUE(eventually([&] { return processes->activity(view.key).last > before; }));
  EXPECT_FALSE(busy());
  // A program in place of the shell is work, and so is what the shell left in the background.
  const auto program = terminal({"sleep", "1000"});
  EXPECT_TRUE(eventually([&] { return busy(); }));
  EXPECT_EQ(post("/" + program + "/cancel", "").status, 202);
  EXPECT_EQ(reason_of(attach(program).end()), "Cancelled");
  EXPECT_TRUE(eventually([&] { return !busy(); }));
  client.type("sleep 1000 &\n");
  EXPECT_TRUE(eventually([&] { return busy(); }));
  EXPECT_EQ(post("/" + uid + "/cancel", "").status, 202);
  EXPECT_EQ(reason_of(client.end()), "Cancelled");
  EXPECT_TRUE(eventually([&] { return !busy(); }));  // with what ran in it
}

TEST_P(AttachTest, StdinIsStreamedWithBackPressureAndHalfClosed) {
  const auto uid = start({"sh", "-c", "sleep 0.3; wc -c; echo done >&2"}, {{"stdinOpen", true}});
  auto client = attach(uid);
  const std::string part(60'000, 'x');
  for (int i = 0; i < 100; ++i) client.type(part);
  client.close_stdin();
  const auto end = client.end();
  EXPECT_EQ(end.at("status"), "Success");
  EXPECT_EQ(reason_of(end), "");
  EXPECT_EQ(client.out, "6000000\n");
  EXPECT_EQ(client.err, "done\n");
}

TEST_P(AttachTest, AnyNumberOfReadersByOffset) {
  const auto uid =
      start({"sh", "-c", "printf 0123456789; read line; printf $line; exit 3"}, {{"stdinOpen", true}});
  auto first = attach(uid, "stdout=true");
  EXPECT_TRUE(first.sees("0123456789"));
  auto second = attach(uid, "stdin=1&stdout=1&offset=4", "v4.channel.k8s.io");
  EXPECT_TRUE(second.sees("456789"));
  first.type("ignored: this one did not ask for stdin\n");
  second.type("abc\n");
  EXPECT_EQ(exit_code_of(first.end()), "3");
  EXPECT_EQ(exit_code_of(second.end()), "3");
  EXPECT_EQ(first.out, "0123456789abc");
  EXPECT_EQ(second.out, "456789abc");
  auto late = attach(uid, "stdout=true&offset=10");
  EXPECT_EQ(exit_code_of(late.end()), "3");
  EXPECT_EQ(late.out, "abc");
}

TEST_P(AttachTest, AClientThatLeavesEndsNothing) {
  const auto uid = start({"sh", "-c", "echo ready; cat"}, {{"stdinOpen", true}});
  {
    auto client = attach(uid);
    EXPECT_TRUE(client.sees("ready"));
    client.type("one\n");
    EXPECT_TRUE(client.sees("one"));
  }
  auto again = attach(uid);
  again.type("two\n");
  EXPECT_TRUE(again.sees("two"));
  again.close_stdin();
  EXPECT_EQ(again.end().at("status"), "Success");
  EXPECT_EQ(again.out, "ready\none\ntwo\n");
}

TEST_P(AttachTest, ATerminalOutlivesTheNode) {
  const auto uid = terminal({"sh"});
  auto client = attach(uid);
  client.type("kept=here; echo ready-$((1+1))\n");
  EXPECT_TRUE(client.sees("ready-2"));
  const size_t heard = client.out.size();
  stop_node();
  start_node();
  auto again = attach(uid, "stdin=true&stdout=true&offset=" + std::to_string(heard));
  again.type("echo $kept-$((2+2))\n");
  EXPECT_TRUE(again.sees("here-4")) << again.out;
  EXPECT_TRUE(eventually([&] { return !busy(); }));
  again.resize(77, 22);
  again.type("stty size; exit 9\n");
  EXPECT_EQ(exit_code_of(again.end()), "9");
  EXPECT_NE(again.out.find("22 77"), again.out.npos) << again.out;
}

TEST_P(AttachTest, SignalsReachTheProcessGroup) {
  const auto uid = start({"sh", "-c", "trap 'echo hup' HUP; echo ready; while :; do sleep 0.05; done"}, {});
  auto client = attach(uid);
  EXPECT_TRUE(client.sees("ready"));
  EXPECT_EQ(post("/" + uid + "/signal", R"({"signal":"SIGHUP"})").status, 202);
  EXPECT_TRUE(client.sees("hup"));
  EXPECT_EQ(post("/" + uid + "/signal", R"({"signal":"SIGTERM"})").status, 202);
  const auto end = client.end();
  EXPECT_EQ(reason_of(end), "Signaled");
  EXPECT_EQ(exit_code_of(end), "143");
  EXPECT_EQ(post("/" + uid + "/signal", R"({"signal":"SIGTERM"})").status, 409);
  EXPECT_EQ(post("/" + uid + "/cancel", "").status, 409);
  for (const char* wrong : {R"({"signal":"TERM"})", R"({"signal":"SIGNONE"})", R"({"signal":15})", "", "[]"})
    EXPECT_GE(post("/" + uid + "/signal", wrong).status, 400) << wrong;
  EXPECT_EQ(post("/" + random_uuid() + "/signal", R"({"signal":"SIGTERM"})").status, 404);
  EXPECT_EQ(post("/" + random_uuid() + "/cancel", "").status, 404);
  // In a terminal it is typed, so that the foreground hears it and the shell goes on.
  const auto shell = terminal({"sh"});
  auto typed = attach(shell);
  run_in(typed);
  EXPECT_EQ(post("/" + shell + "/signal", R"({"signal":"SIGINT"})").status, 202);
  ASSERT_TRUE(eventually([&] { return !busy(); }));
  typed.type("echo was-$?\n");
  EXPECT_TRUE(typed.sees("was-130")) << typed.out;
}

TEST_P(AttachTest, AnEndOfInputEndsATerminalsShell) {
  auto client = attach(terminal({"sh"}));
  client.type("echo ready-$((1+1))\n");
  EXPECT_TRUE(client.sees("ready-2"));
  client.close_stdin();
  EXPECT_EQ(client.end().at("status"), "Success");
}

TEST_P(AttachTest, WhatCannotBeAttachedTo) {
  const auto uid = start({"true"}, {});
  EXPECT_EQ(open(random_uuid(), "", "v5.channel.k8s.io").error().reason, "ProcessUnknown");
  EXPECT_EQ(open(uid, "offset=-1", "v5.channel.k8s.io").error().reason, "Invalid");
  EXPECT_EQ(open(uid, "stdin=maybe", "v5.channel.k8s.io").error().reason, "Invalid");
  EXPECT_EQ(open(uid, "", "v1.channel.k8s.io").error().reason, "BadRequest");
  http::Client plain;
  http::ClientRequest request;
  request.url = base() + "/" + uid + "/attach";
  request.headers.set("Authorization", "Bearer token");
  EXPECT_EQ(plain.call(request)->status, 400);
  // A message on a channel that is not there is the client's fault, and is said.
  auto client = attach(start({"sleep", "1000"}, {}));
  EXPECT_TRUE(client.socket->write("\x09what"));
  EXPECT_FALSE(client.read_until([] { return false; }));
  EXPECT_EQ(client.socket->close_code(), 1002);
}

TEST_P(AttachTest, AStartThatFailsSaysWhy) {
  for (const auto& [program, code, why] : {std::tuple{"/no/such", "127", "No such file or directory"},
                                           std::tuple{"/etc", "126", "Permission denied"}}) {
    auto client = attach(terminal({program}));
    const auto end = client.end();
    EXPECT_EQ(reason_of(end), "StartFailed");
    EXPECT_EQ(exit_code_of(end), code);
    EXPECT_NE(std::string(end.at("message").as_string()).find(why), std::string::npos) << end.at("message");
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttachTest, testing::Values(Runtime::kPlain, Runtime::kRunc, Runtime::kRunsc),
                         [](const auto& info) { return test::to_text(info.param); });

}  // namespace
}  // namespace nodus::executor
