// exec -i, exec -t and shell against a server that speaks the remote-command subprotocol.
#include <fcntl.h>
#include <unistd.h>

#include "cli/channels.hpp"
#include "libs/http/websocket.hpp"
#include "tests/unit/cli/fake_api.hpp"

namespace nodus::cli {
namespace {

using testing::HasSubstr;

constexpr std::string_view kGood =
    R"({"kind":"Status","status":"Success","details":{"process":"sb-hello-1","reason":""}})";

std::string ended(const std::string& reason, int code) {
  return R"({"status":"Failure","reason":"NonZeroExitCode","message":"It ended.","details":{"reason":")" +
         reason + R"(","causes":[{"reason":"ExitCode","message":")" + std::to_string(code) + R"("}]}})";
}

class Session : public FakeApi {
 protected:
  using Talk = std::function<Task<>(http::WebSocket&, const Request&)>;

  void exec_on(const std::string& sandbox_name, Talk talk) {
    host_.stream("GET", kBase + "/sandboxes/" + sandbox_name + "/exec",
                 [this, talk = std::move(talk)](Exchange& exchange) -> Task<> {
                   note(exchange.request());
                   if (refusals_-- > 0) {
                     co_await exchange.respond(error(Code::kUnavailable, "SandboxStarting", 2));
                     co_return;
                   }
                   auto socket =
                       co_await exchange.upgrade({.protocols = {std::string(kV5), std::string(kV4)}});
                   if (socket) co_await talk(**socket, exchange.request());
                 });
  }
  // Reads standard input to its end, gives it back as output, and ends well.
  static Task<> echo(http::WebSocket& socket, const Request&) {
    for (;;) {
      auto message = co_await socket.read();
      if (!message) co_return;
      if (*message == close_message(Channel::kStdin)) break;
      if (message->front() == '\0')
        co_await socket.write(channel_message(Channel::kStdout, message->substr(1)));
    }
    co_await say_end(socket, kGood);
  }
  static Task<> say_end(http::WebSocket& socket, std::string_view status) {
    co_await socket.write(channel_message(Channel::kStatus, status));
    co_await socket.close(1000, "");
  }
  void input(const std::string& text) {
    const std::string path = file("input", text);
    in_fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  ~Session() override {
    if (in_fd_ >= 0) close(in_fd_);
  }
  std::atomic<int> refusals_ = 0;
};

TEST_F(Session, InputOfAnySizeGoesAndComes) {
  exec_on("hello", echo);
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += std::to_string(i) + "\n";
  input(text);
  EXPECT_EQ(run({"exec", "-i", "sb/hello", "--env", "A=b c", "--timeout", "5m", "--", "cat", "-"}), 0)
      << err();
  EXPECT_EQ(out(), text);
  const Request& request = seen_.at(0);
  EXPECT_EQ(request.query_value("env"), "A=b c");
  EXPECT_EQ(request.query_value("stdin"), "true");
  EXPECT_EQ(request.query_value("tty"), "false");
  EXPECT_EQ(request.query_value("timeout"), "5m");
  EXPECT_EQ(request.query.count("command"), 2u);
  EXPECT_TRUE(request.headers.get("Idempotency-Key"));
  EXPECT_EQ(request.headers.get("Authorization"), "Bearer secret-key");
}

TEST_F(Session, ItWaitsForTheSandbox) {
  refusals_ = 3;
  exec_on("hello", echo);
  input("x");
  EXPECT_EQ(run({"exec", "-i", "sb/hello", "--", "cat"}), 0) << err();
  EXPECT_EQ(out(), "x");
  EXPECT_EQ(seen_.size(), 4u);
}

TEST_F(Session, StreamsAndEndsAreTheCommands) {
  exec_on("hello", [](http::WebSocket& socket, const Request&) -> Task<> {
    co_await socket.write(channel_message(Channel::kStdout, "out"));
    co_await socket.write(channel_message(Channel::kStderr, "err\n"));
    co_await say_end(socket, ended("Signaled", 137));
  });
  input("");
  EXPECT_EQ(run({"exec", "-i", "sb/hello", "--", "x"}), 137);
  EXPECT_EQ(out(), "out");
  EXPECT_EQ(err(), "err\nerror: the command ended with Signaled: It ended.\n");
}

TEST_F(Session, ATerminalGoesOnAfterALostConnection) {
  int calls = 0;
  exec_on("hello", [&](http::WebSocket& socket, const Request& request) -> Task<> {
    if (++calls == 1) {
      co_await socket.write(channel_message(Channel::kStdout, "abc"));
      co_return;  // gone without a word
    }
    EXPECT_EQ(request.query_value("offset"), "3");
    co_await socket.write(channel_message(Channel::kStdout, "def"));
    co_await say_end(socket, kGood);
  });
  EXPECT_EQ(run({"exec", "-t", "sb/hello", "--", "x"}), 0) << err();
  EXPECT_EQ(out(), "abcdef");
  EXPECT_EQ(seen_.at(0).query_value("tty"), "true");
  EXPECT_EQ(seen_.at(0).headers.get("Idempotency-Key"), seen_.at(1).headers.get("Idempotency-Key"));
}

TEST_F(Session, PipedInputThatMayBeLostIsSaid) {
  exec_on("hello", [](http::WebSocket& socket, const Request&) -> Task<> {
    (void)co_await socket.read();
    co_return;
  });
  input("half of it");
  EXPECT_EQ(run({"exec", "-i", "sb/hello", "--", "cat"}), 69);
  EXPECT_THAT(err(), HasSubstr("may not have arrived"));
  EXPECT_THAT(err(), HasSubstr("The command goes on"));
  EXPECT_EQ(seen_.size(), 1u);
}

TEST_F(Session, RefusalsAreToldOnce) {
  host_.stream("GET", kBase + "/sandboxes/hello/exec", [](Exchange& exchange) -> Task<> {
    co_await exchange.respond(error(Code::kConflict, "SandboxFailed"));
  });
  input("");
  EXPECT_EQ(run({"exec", "-i", "sb/hello", "--", "cat"}), 1);
  EXPECT_THAT(err(), HasSubstr("It said no. (SandboxFailed)"));
}

class Shell : public Session {
 protected:
  // A project with Sandboxes that come and go.
  void world(bool there) {
    there_ = there;
    on("GET", "/sandboxes/dev", [this](const Request&) {
      return there_ ? sandbox(200, "Running") : error(Code::kNotFound, "NotFound");
    });
    on("POST", "/sandboxes", [this](const Request& request) {
      created_ = json::parse(request.body);
      there_ = true;
      return sandbox(201, "Pending");
    });
    on("DELETE", "/sandboxes/{name}", [this](const Request& request) {
      deleted_ = request.segments.back();
      there_ = false;
      return sandbox(202, "Terminating");
    });
  }
  bool there_ = false;
  json::value created_;
  std::string deleted_;
};

TEST_F(Shell, ANewNameIsCreatedWithTheFlagsAndKept) {
  world(false);
  exec_on("dev", echo);
  input("make test\n");
  EXPECT_EQ(run({"shell", "sandbox/dev", "--cpu", "2", "--memory", "4Gi"}), 0) << err();
  EXPECT_EQ(out(), "make test\n");
  EXPECT_EQ(err(), "sandbox/dev created\nsandboxes/dev is starting; waiting for it\n");
  EXPECT_EQ(created_.at("metadata").at("name"), "dev");
  EXPECT_EQ(json::serialize(created_.at("spec")),
            R"({"image":"nodus/agent-tools","resources":{"cpu":"2","memory":"4Gi"}})");
  EXPECT_EQ(deleted_, "");
  EXPECT_EQ(seen_.back().query_value("tty"), "false") << "the input is no terminal";
}

TEST_F(Shell, AnExistingOneIsOpenedAsItIs) {
  world(true);
  exec_on("dev", echo);
  input("");
  EXPECT_EQ(run({"shell", "dev", "--", "zsh", "-l"}), 0) << err();
  EXPECT_EQ(err(), "");
  EXPECT_TRUE(created_.is_null());
  EXPECT_EQ(seen_.back().query.count("command"), 2u);
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{"--rm"}, {"--cpu", "2"}, {"--label", "a=b"}}) {
    std::vector<std::string> args{"shell", "sandbox/dev"};
    args.insert(args.end(), flags.begin(), flags.end());
    seen_.clear();
    EXPECT_EQ(run(args), 2);
    EXPECT_THAT(err(), HasSubstr("sandbox/dev exists"));
    EXPECT_EQ(seen_.size(), 1u) << "one GET, and nothing is changed or woken";
  }
}

TEST_F(Shell, RmDeletesWhatItMadeWhateverTheEnd) {
  world(false);
  exec_on("dev", [](http::WebSocket& socket, const Request&) -> Task<> {
    co_await say_end(socket, ended("NonZeroExit", 3));
  });
  input("");
  EXPECT_EQ(run({"shell", "dev", "--rm"}), 3) << err();
  EXPECT_EQ(deleted_, "dev");
  EXPECT_EQ(created_.at("spec").at("lifecycle").at("onIdle"), "Delete") << "also if we are killed first";
}

TEST_F(Shell, RmDeletesWhatCouldNotStart) {
  world(false);
  host_.stream("GET", kBase + "/sandboxes/dev/exec", [](Exchange& exchange) -> Task<> {
    co_await exchange.respond(error(Code::kPaymentRequired, "InsufficientCredits"));
  });
  input("");
  EXPECT_EQ(run({"shell", "dev", "--rm"}), 1);
  EXPECT_EQ(deleted_, "dev");
}

TEST_F(Shell, WithoutANameItIsOneOfItsOwn) {
  world(false);
  exec_on("{name}", echo);
  input("");
  EXPECT_EQ(run({"shell"}), 0) << err();
  const std::string name(created_.at("metadata").at("name").as_string());
  EXPECT_THAT(name, testing::MatchesRegex("shell-[0-9a-f]+"));
  EXPECT_EQ(deleted_, name);
  deleted_.clear();
  EXPECT_EQ(run({"shell", "--keep"}), 0) << err();
  EXPECT_EQ(deleted_, "");
  EXPECT_FALSE(created_.at("spec").as_object().contains("lifecycle"));
  EXPECT_THAT(err(), HasSubstr("is kept; nodus shell sandbox/shell-"));
}

}  // namespace
}  // namespace nodus::cli
