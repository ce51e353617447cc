// Routes that read and answer in parts.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <stdexcept>
#include <thread>

#include "tests/unit/http/raw.hpp"

namespace nodus::http {
namespace {

template <class T = void>
using Task = boost::asio::awaitable<T>;

const std::string kGet = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";

TEST(Streams, StreamsBothWays) {
  TestServer host;
  host.stream("POST", "/count", [](Exchange& exchange) -> Task<> {
    size_t total = 0;
    while (true) {
      auto part = co_await exchange.read_some();
      if (!part) co_return co_await exchange.respond(status(part.error()));
      if (part->empty()) break;
      total += part->size();
    }
    co_await exchange.begin(200, {});
    for (const char* piece : {"total ", "is "}) co_await exchange.write(piece);
    co_await exchange.write(std::to_string(total));
    co_await exchange.finish();
  });
  Raw client(host.start());
  const std::string body(3'000'000, 'x');
  client.send("POST /count HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\n\r\n" + body);
  EXPECT_EQ(client.read_answer().body, "total is 3000000");
  client.send("POST /count HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2dc6c0\r\n" + body +
              "\r\n0\r\n\r\n");
  EXPECT_EQ(client.read_answer().body, "total is 3000000");
}

TEST(Streams, WhatIsWrittenDownBeforeTheAnswerIsThereWhenTheClientHasIt) {
  TestServer host;
  std::atomic<int> hooks = 0;
  const auto count = [&](int status) {
    std::this_thread::sleep_for(Millis(1));
    hooks += status;
  };
  host.stream("GET", "/x", [&](Exchange& exchange) -> Task<> {
    exchange.before_answer(count);
    co_await exchange.respond({.status = 404, .headers = {}, .body = "x"});
  });
  host.stream("GET", "/begun", [&](Exchange& exchange) -> Task<> {
    exchange.before_answer(count);
    co_await exchange.begin(200, {});
    co_await exchange.finish();
  });
  Raw client(host.start());
  for (int i = 1; i <= 20; ++i) {
    client.send(kGet);
    client.read_answer();
    EXPECT_EQ(hooks.exchange(0), 404);
    client.send("GET /begun HTTP/1.1\r\nHost: h\r\n\r\n");
    client.read_answer();
    EXPECT_EQ(hooks.exchange(0), 200);
  }
}

TEST(Streams, AStreamThatIsNotFinishedNeverEndsCleanly) {
  TestServer host;
  host.stream("GET", "/x", [](Exchange& exchange) -> Task<> {
    co_await exchange.begin(200, {});
    co_await exchange.write("half");
    if (exchange.request().target == "/x") throw std::runtime_error("broke");
  });
  Raw client(host.start());
  client.send(kGet);
  EXPECT_FALSE(client.read_answer().whole);
}

TEST(Streams, AWriterLearnsThatTheClientLeft) {
  TestServer host;
  std::atomic<bool> learned = false;
  host.stream("GET", "/x", [&](Exchange& exchange) -> Task<> {
    co_await exchange.begin(200, {});
    const std::string piece(10'000, 'x');
    while (co_await exchange.write(piece)) continue;
    learned = true;
  });
  const int port = host.start();
  {
    Raw client(port);
    client.send(kGet);
    client.read_some();
  }
  EXPECT_TRUE(eventually([&] { return learned.load(); }));
}

TEST(Streams, BlockingWorkOfStreamsRunsOnWorkers) {
  TestServer host;
  host.stream("GET", "/x", [](Exchange& exchange) -> Task<> {
    std::thread::id worker;
    const auto here = std::this_thread::get_id();
    const auto ran = co_await exchange.run_blocking([&] { worker = std::this_thread::get_id(); });
    co_await exchange.respond(json(200, ran && worker != here ? "elsewhere" : "here"));
  });
  Raw client(host.start());
  client.send(kGet);
  EXPECT_EQ(client.read_answer().body, "elsewhere");
}

}  // namespace
}  // namespace nodus::http
