// Slow clients and floods of connections: they cost others nothing.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <future>
#include <thread>

#include "tests/unit/http/raw.hpp"

namespace nodus::http {
namespace {

template <class T = void>
using Task = boost::asio::awaitable<T>;

const std::string kGet = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";

// A flood of connections that ask for nothing: whoever asks gets an answer, and what is under way goes on.
TEST(SlowClients, IdleConnectionsMakeRoom) {
  ServerOptions options;
  options.limits.connections = 8;
  TestServer host(options);
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<bool> under_way = false;
  host.get("/x", [](const Request&) { return json(200, "ok"); });
  host.get("/wait", [&](const Request&) {
    under_way = true;
    released.wait();
    return json(200, "done");
  });
  const int port = host.start();
  Raw working(port);
  working.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return under_way.load(); }));
  std::vector<std::unique_ptr<Raw>> flood;
  for (int i = 0; i < 60; ++i) {
    flood.push_back(std::make_unique<Raw>(port));
    if (i % 2) flood.back()->send("GET /x HT");
    if (i % 20 != 19) continue;
    EXPECT_TRUE(eventually([&] {
      Raw asking(port);
      asking.send(kGet);
      return asking.read_answer().status == 200;
    }));
  }
  release.set_value();
  EXPECT_EQ(working.read_answer().status, 200);
}

TEST(SlowClients, AnAnswerOfAnnouncedLength) {
  TestServer host;
  const auto give = [](std::string text, size_t announced) {
    return [=](Exchange& exchange) -> Task<> {
      Headers headers;
      headers.set("Content-Length", std::to_string(announced));
      co_await exchange.begin(200, std::move(headers));
      co_await exchange.write(text);
      co_await exchange.finish();
    };
  };
  host.stream("GET", "/whole", give("12345", 5));
  host.stream("GET", "/short", give("123", 5));
  const int port = host.start();
  Raw client(port);
  client.send("GET /whole HTTP/1.1\r\nHost: a\r\n\r\n");
  const RawAnswer whole = client.read_answer();
  EXPECT_EQ(whole.body, "12345");
  EXPECT_EQ(whole.headers.at("content-length"), "5");
  EXPECT_FALSE(whole.headers.contains("transfer-encoding"));
  client.send("HEAD /whole HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.read_answer(true).headers.at("content-length"), "5");
  client.send("GET /short HTTP/1.1\r\nHost: a\r\n\r\n");
  const RawAnswer cut = client.read_answer();
  EXPECT_FALSE(cut.whole);  // cut off, not taken for whole
}

// One byte now and then: each arrives in time, the whole never would.
TEST(SlowClients, ABodyThatTricklesIsRefused) {
  ServerOptions options;
  options.limits.pace_grace = Millis(50);
  options.limits.pace_bytes_per_s = 100'000;
  TestServer host(options);
  host.stream("POST", "/count", [](Exchange& exchange) -> Task<> {
    auto body = co_await exchange.read_body(1 << 20);
    co_await exchange.respond(body ? json(200, "ok") : status(body.error()));
  });
  const int port = host.start();
  Raw client(port);
  client.send("POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
  std::atomic<bool> answered = false;
  std::thread trickle([&] {
    while (!answered) {
      client.send("x");
      std::this_thread::sleep_for(Millis(10));
    }
  });
  EXPECT_EQ(client.read_answer().status, 408);
  answered = true;
  trickle.join();
}

}  // namespace
}  // namespace nodus::http
