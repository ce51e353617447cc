#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "libs/base/check.hpp"
#include "tests/unit/http/raw.hpp"

namespace nodus::http {
namespace {

using testing::HasSubstr;
using testing::Not;
template <class T = void>
using Task = boost::asio::awaitable<T>;

// An upstream whose every byte the test decides.
class Scripted {
 public:
  Scripted() {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    CHECK(listen(listener_, 16) == 0);
    socklen_t size = sizeof address;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~Scripted() {
    hang_up();
    stop_listening();
  }
  int port() const { return port_; }
  void stop_listening() {
    if (listener_ >= 0) close(listener_);
    listener_ = -1;
  }
  void accept_one() { fd_ = accept(listener_, nullptr, nullptr); }
  std::string read_until(const std::string& needle) {
    while (seen_.find(needle) == std::string::npos) {
      char bytes[4096];
      const ssize_t got = recv(fd_, bytes, sizeof bytes, 0);
      if (got <= 0) break;
      seen_.append(bytes, static_cast<size_t>(got));
    }
    return seen_;
  }
  // True when the proxy closes.
  bool hears_the_end() {
    char bytes[4096];
    ssize_t got = 0;
    while ((got = recv(fd_, bytes, sizeof bytes, 0)) > 0) continue;
    return true;
  }
  void say(std::string_view bytes) { CHECK(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0); }
  void hang_up() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int listener_ = -1, fd_ = -1, port_ = 0;
  std::string seen_;
};

class Proxy : public testing::Test {
 protected:
  Proxy() {
    front_.stream("GET", "/p", [this](Exchange& e) { return forward(e); });
    front_.stream("POST", "/p", [this](Exchange& e) { return forward(e); });
    port_ = front_.start();
  }
  Task<> forward(Exchange& exchange) {
    Upstream to;
    to.host = "127.0.0.1";
    to.port = upstream_.port();
    to.target = "/inner?x=1";
    to.headers.set("X-Given", "yes");
    if (upgrade_) to.headers.set("Upgrade", "echo");
    to.body = body_;
    to.body_limit = limit_;
    to.idle_time = idle_;
    to.intercept = [](int answered, const Headers&) -> std::optional<Response> {
      if (answered == 409) return json(503, "instead");
      return std::nullopt;
    };
    const auto handed = co_await exchange.proxy(std::move(to));
    if (!handed) {
      reason_ = handed.error().reason;
      co_await exchange.respond(status(handed.error()));
    }
    ++ended_;
  }
  bool ended() {
    return eventually([&] { return ended_ > 0; });
  }
  Scripted upstream_;
  std::optional<std::string> body_;
  size_t limit_ = 100'000'000;
  Millis idle_{10'000};
  bool upgrade_ = false;
  std::string reason_;
  std::atomic<int> ended_ = 0;
  TestServer front_;  // after what its handler uses
  int port_ = 0;
};

const std::string kGet = "GET /p HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\nX-Mine: no\r\n\r\n";

TEST_F(Proxy, SendsOnlyTheGivenHeadersAndStripsHopByHop) {
  Raw client(port_);
  client.send(kGet);
  upstream_.accept_one();
  const std::string seen = upstream_.read_until("\r\n\r\n");
  EXPECT_THAT(seen, HasSubstr("GET /inner?x=1 HTTP/1.1\r\n"));
  EXPECT_THAT(seen, HasSubstr("X-Given: yes\r\n"));
  EXPECT_THAT(seen, Not(HasSubstr("secret")));
  EXPECT_THAT(seen, Not(HasSubstr("X-Mine")));
  upstream_.say(
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\nConnection: close\r\n"
      "Keep-Alive: 5\r\nX-Answer: a\r\n\r\nhi");
  RawAnswer answer = client.read_answer();
  EXPECT_EQ(answer.status, 201);
  EXPECT_EQ(answer.body, "hi");
  EXPECT_EQ(answer.headers["x-answer"], "a");
  EXPECT_FALSE(answer.headers.contains("keep-alive"));
  EXPECT_FALSE(answer.headers.contains("connection"));
  // The client's connection lives on.
  upstream_.hang_up();
  client.send(kGet);
  upstream_.accept_one();
  upstream_.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nTrailer: x\r\n\r\n");
  answer = client.read_answer();
  EXPECT_EQ(answer.body, "abc");
  EXPECT_TRUE(answer.whole);
}

TEST_F(Proxy, StreamsEachPieceAsItComes) {
  Raw client(port_);
  client.send(kGet);
  upstream_.accept_one();
  upstream_.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  std::string seen = client.read_some();
  for (const char* piece : {"one", "two", "six"}) {
    upstream_.say("3\r\n" + std::string(piece) + "\r\n");
    while (seen.find(piece) == std::string::npos) seen += client.read_some();
  }
  EXPECT_THAT(seen, HasSubstr("six"));
}

TEST_F(Proxy, MovesABigBodyBothWaysInConstantMemory) {
  TestServer back;
  back.stream("POST", "/inner", [](Exchange& exchange) -> Task<> {
    co_await exchange.begin(200, {});
    while (true) {
      auto part = co_await exchange.read_some();
      if (!part || part->empty()) break;
      co_await exchange.write(*part);
    }
    co_await exchange.finish();
  });
  const int back_port = back.start();
  TestServer front;
  front.stream("POST", "/p", [&](Exchange& exchange) -> Task<> {
    Upstream to;
    to.host = "localhost";
    to.port = back_port;
    to.target = "/inner";
    to.body_limit = 64 << 20;
    const auto handed = co_await exchange.proxy(std::move(to));
    if (!handed) co_await exchange.respond(status(handed.error()));
  });
  const int port = front.start();
  for (const bool chunked : {false, true}) {
    Raw client(port);
    const std::string body(20'000'000, 'b');
    std::thread sender([&] {
      if (chunked) {
        client.send("POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1312d00\r\n" + body +
                    "\r\n0\r\n\r\n");
      } else {
        client.send("POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 20000000\r\n\r\n" + body);
      }
    });
    const RawAnswer answer = client.read_answer();
    sender.join();
    EXPECT_TRUE(answer.whole);
    EXPECT_TRUE(answer.body == body);
  }
}

TEST_F(Proxy, AnotherBodyTakesTheClientsPlace) {
  body_ = "instead";
  Raw client(port_);
  client.send("POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nmine");
  upstream_.accept_one();
  const std::string seen = upstream_.read_until("instead");
  EXPECT_THAT(seen, HasSubstr("Content-Length: 7\r\n"));
  EXPECT_THAT(seen, Not(HasSubstr("mine")));
  upstream_.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_EQ(client.read_answer().body, "ok");
}

TEST_F(Proxy, RefusedConnectionIsTheCallersToAnswer) {
  upstream_.stop_listening();
  Raw client(port_);
  client.send(kGet);
  EXPECT_EQ(client.read_answer().status, 503);
  EXPECT_EQ(reason_, "UpstreamUnreachable");
  client.send(kGet);
  EXPECT_EQ(client.read_answer().status, 503);
}

TEST_F(Proxy, DeathBeforeTheAnswerIsTheCallersToAnswer) {
  Raw client(port_);
  client.send(kGet);
  upstream_.accept_one();
  upstream_.read_until("\r\n\r\n");
  upstream_.say("HTTP/1.1 200 O");
  upstream_.hang_up();
  EXPECT_EQ(client.read_answer().status, 503);
  EXPECT_EQ(reason_, "UpstreamLost");
}

TEST_F(Proxy, DeathInTheBodyNeverLooksLikeTheEnd) {
  for (const char* start : {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
                            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"}) {
    Raw client(port_);
    client.send(kGet);
    upstream_.accept_one();
    upstream_.say(start);
    EXPECT_THAT(client.read_some(), HasSubstr("200 OK"));
    upstream_.hang_up();
    EXPECT_THAT(client.read_all(), Not(HasSubstr("0\r\n\r\n")));
    EXPECT_TRUE(client.reset());
  }
}

TEST_F(Proxy, MalformedAnswersAreNotPassedOn) {
  for (const char* bad :
       {"nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nwithout a length",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"}) {
    Raw client(port_);
    client.send(kGet);
    upstream_.accept_one();
    upstream_.say(bad);
    EXPECT_EQ(client.read_answer().status, 503) << bad;
    upstream_.hang_up();
  }
}

TEST_F(Proxy, AClientThatLeavesClosesTheUpstream) {
  {
    Raw client(port_);
    client.send(kGet);
    upstream_.accept_one();
    upstream_.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.read_some();
  }
  EXPECT_TRUE(upstream_.hears_the_end());
  EXPECT_TRUE(ended());
}

TEST_F(Proxy, AClientThatLeavesBeforeTheAnswerClosesTheUpstream) {
  {
    Raw client(port_);
    client.send(kGet);
    upstream_.accept_one();
    upstream_.read_until("\r\n\r\n");
  }
  EXPECT_TRUE(upstream_.hears_the_end());
  EXPECT_TRUE(ended());
}

TEST_F(Proxy, ASilentUpstreamTimesOut) {
  idle_ = Millis(50);
  Raw client(port_);
  client.send(kGet);
  upstream_.accept_one();
  EXPECT_EQ(client.read_answer().status, 504);
  EXPECT_EQ(reason_, "UpstreamTimedOut");
}

TEST_F(Proxy, AClientThatStallsInItsBodyGets408) {
  idle_ = Millis(50);
  Raw client(port_);
  client.send("POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf");
  upstream_.accept_one();
  EXPECT_EQ(client.read_answer().status, 408);
  EXPECT_TRUE(client.ends());
}

TEST_F(Proxy, TooLargeBodiesAreRefusedBeforeTheyAreTaken) {
  limit_ = 10;
  Raw known(port_);
  known.send("POST /p HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n");
  RawAnswer answer = known.read_answer();
  EXPECT_EQ(answer.status, 413);
  EXPECT_THAT(answer.body, HasSubstr("FileTooLarge"));
  EXPECT_TRUE(known.ends());
  Raw chunked(port_);
  chunked.send("POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n");
  upstream_.accept_one();
  EXPECT_THAT(upstream_.read_until("abcdef"), HasSubstr("abcdef"));
  chunked.send("6\r\nabcdef\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.read_answer().status, 413);
  EXPECT_TRUE(upstream_.hears_the_end());
}

TEST_F(Proxy, AnEarlyAnswerEndsTheRequest) {
  Raw client(port_);
  client.send("POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nsome");
  upstream_.accept_one();
  upstream_.read_until("some");
  upstream_.say("HTTP/1.1 422 Unprocessable\r\nContent-Length: 2\r\n\r\nno");
  const RawAnswer answer = client.read_answer();
  EXPECT_EQ(answer.status, 422);
  EXPECT_EQ(answer.body, "no");
  EXPECT_TRUE(client.ends());
}

TEST_F(Proxy, AnAnswerCanBeReplacedAndTheConnectionLivesOn) {
  Raw client(port_);
  client.send(kGet);
  upstream_.accept_one();
  upstream_.say("HTTP/1.1 409 Conflict\r\nContent-Length: 100\r\n\r\nnever seen");
  const RawAnswer answer = client.read_answer();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.body, "instead");
  EXPECT_TRUE(upstream_.hears_the_end());
  upstream_.hang_up();
  client.send(kGet);
  upstream_.accept_one();
  upstream_.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_EQ(client.read_answer().body, "ok");
}

TEST_F(Proxy, UpgradesBecomeAPipe) {
  upgrade_ = true;
  Raw client(port_);
  client.send("GET /p HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
  upstream_.accept_one();
  EXPECT_THAT(upstream_.read_until("\r\n\r\n"), HasSubstr("Connection: Upgrade\r\nUpgrade: echo\r\n"));
  upstream_.say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello");
  EXPECT_EQ(client.read_answer().status, 101);
  std::string seen;
  while (seen.size() < 5) seen += client.read_some();
  EXPECT_EQ(seen, "hello");
  client.send("ping");
  upstream_.read_until("ping");
  upstream_.say("pong");
  EXPECT_EQ(client.read_some(), "pong");
  client.end_sending();
  EXPECT_TRUE(upstream_.hears_the_end());
  upstream_.say("bye");
  upstream_.hang_up();
  EXPECT_EQ(client.read_all(), "bye");
}

}  // namespace
}  // namespace nodus::http
