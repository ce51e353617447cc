// Routes that read and answer in parts.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "libs/http/stream.hpp"
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

// Whoever misses the end of a stream, as when an answer ends at the same moment, finds it again at once.
TEST(Streams, TheEndIsThereForEveryReader) {
  namespace asio = boost::asio;
  asio::io_context io;
  Tcp::acceptor acceptor(io, Tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  Tcp::socket peer(io);
  peer.connect(acceptor.local_endpoint());
  Stream stream(acceptor.accept());
  std::vector<Io> ends;
  asio::co_spawn(
      io,
      [&]() -> Task<> {
        stream.deadline().set(Millis(3'000));
        asio::post(io, [&] { peer.shutdown(Tcp::socket::shutdown_send); });
        for (int i = 0; i < 3; ++i) ends.push_back(co_await stream.fill());
        io.stop();
      },
      asio::detached);
  io.run_for(std::chrono::seconds(10));
  EXPECT_EQ(ends, std::vector<Io>(3, Io::kClosed));
}

}  // namespace
}  // namespace nodus::http
