#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/json.hpp>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "libs/http/client.hpp"
#include "tests/unit/http/raw.hpp"

namespace nodus::http {
namespace {

using testing::HasSubstr;
using testing::Not;
template <class T = void>
using Task = boost::asio::awaitable<T>;

const std::string kGet = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";

TEST(Server, ThousandRequestsOnOneConnection) {
  TestServer host;
  host.get("/x", [](const Request& r) { return json(200, r.query_value("n").value_or("")); });
  Raw client(host.start());
  for (int i = 0; i < 1000; ++i) {
    client.send("GET /x?n=" + std::to_string(i) + " HTTP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_EQ(client.read_answer().body, std::to_string(i));
  }
}

TEST(Server, HeadHasTheHeadersOfGetAndNoBody) {
  TestServer host;
  host.get("/x", [](const Request&) { return json(200, "12345"); });
  host.stream("GET", "/s", [](Exchange& exchange) -> Task<> {
    co_await exchange.begin(200, {});
    co_await exchange.write("streamed");
    co_await exchange.finish();
  });
  Raw client(host.start());
  client.send("HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client.read_answer(true).headers["content-length"], "5");
  client.send("HEAD /s HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client.read_answer(true).status, 200);
  client.send(kGet);
  EXPECT_EQ(client.read_answer().body, "12345");
}

TEST(Server, MethodNotAllowedNamesTheMethods) {
  TestServer host;
  host.get("/x", [](const Request&) { return json(200, ""); });
  Raw client(host.start());
  client.send("PUT /x HTTP/1.1\r\nHost: h\r\n\r\n");
  const RawAnswer answer = client.read_answer();
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.headers.at("allow"), "GET, HEAD");
  const auto body = boost::json::parse(answer.body).as_object();
  EXPECT_EQ(body.at("kind"), "Status");
  EXPECT_EQ(body.at("code"), 405);
  EXPECT_EQ(body.at("reason"), "MethodNotAllowed");
}

TEST(Server, AStatusIsUtf8WhateverItRepeats) {
  const auto response = status({Code::kBadRequest, "BadRequest", "x\xdb\xffy", {}, {}, {}});
  EXPECT_NE(response.body.find("x\xef\xbf\xbd\xef\xbf\xbdy"), std::string::npos) << response.body;
}

TEST(Server, StatusHasCausesAndDetails) {
  Error error{Code::kTooManyRequests,        "Slow", "Slow down.",
              {{"spec.x", "Bad", "is bad"}}, 7,      R"({"diff":{"a":1}})"};
  const Response response = status(error);
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.headers.get("Retry-After"), "7");
  const auto body = boost::json::parse(response.body).as_object();
  EXPECT_EQ(body.at("apiVersion"), "v1");
  EXPECT_EQ(body.at("status"), "Failure");
  EXPECT_EQ(body.at("details").at("retryAfterSeconds"), 7);
  EXPECT_EQ(body.at("details").at("causes").at(0).at("field"), "spec.x");
  EXPECT_EQ(body.at("details").at("diff").at("a"), 1);
  EXPECT_EQ(parse_status(response), error);
}

TEST(Server, InternalErrorsDoNotLeak) {
  TestServer host;
  host.get("/throws", [](const Request&) -> Response { throw std::runtime_error("password=hunter2"); });
  host.get("/fails",
           [](const Request&) { return status({Code::kInternal, "Db", "password=hunter2", {}, {}, ""}); });
  host.stream("GET", "/stream", [](Exchange&) -> Task<> {
    throw std::runtime_error("password=hunter2");
    co_return;
  });
  host.stream("GET", "/silent", [](Exchange&) -> Task<> { co_return; });
  Raw client(host.start());
  for (const char* path : {"/throws", "/fails", "/stream", "/silent"}) {
    client.send(std::string("GET ") + path + " HTTP/1.1\r\nHost: h\r\n\r\n");
    const RawAnswer answer = client.read_answer();
    EXPECT_EQ(answer.status, 500) << path;
    EXPECT_THAT(answer.body, Not(HasSubstr("hunter2"))) << path;
  }
}

TEST(Server, AnswersTooLargeBeforeTheBodyIsSent) {
  TestServer host;
  host.add("POST", "/x", [](const Request&) { return json(200, "no"); });
  Raw client(host.start());
  client.send("POST /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n");
  const RawAnswer answer = client.read_answer();
  EXPECT_EQ(answer.status, 413);
  EXPECT_TRUE(client.ends());
}

TEST(Server, ContinuesWhenTheBodyIsWanted) {
  TestServer host;
  host.add("POST", "/x", [](const Request& r) { return json(200, r.body); });
  Raw client(host.start());
  client.send("POST /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 100);
  client.send("hello");
  EXPECT_EQ(client.read_answer().body, "hello");
  client.send("POST /nowhere HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 404);
  EXPECT_TRUE(client.ends());  // the client may or may not send the body now
}

TEST(Server, SlowClientsAreCutOff) {
  ServerOptions options;
  options.limits.header_time = Millis(100);
  options.limits.body_idle_time = Millis(100);
  options.limits.keep_alive_time = Millis(100);
  TestServer host(options);
  host.add("POST", "/x", [](const Request& r) { return json(200, r.body); });
  const int port = host.start();
  Raw silent(port);
  EXPECT_TRUE(silent.ends());
  Raw half_header(port);
  half_header.send("POST /x HTTP/1.1\r\nHo");
  EXPECT_EQ(half_header.read_answer().status, 408);
  EXPECT_TRUE(half_header.ends());
  Raw half_body(port);
  half_body.send("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe");
  EXPECT_EQ(half_body.read_answer().status, 408);
  EXPECT_TRUE(half_body.ends());
  Raw kept(port);
  kept.send("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(kept.read_answer().status, 200);
  EXPECT_TRUE(kept.ends());
}

TEST(Server, SlowClientsAndBusyWorkersDoNotBlockOthers) {
  ServerOptions options;
  options.io_threads = 1;
  options.workers = 2;
  TestServer host(options);
  std::promise<void> release;
  auto released = release.get_future().share();
  host.get("/slow", [released](const Request&) {
    released.wait();
    return json(200, "slow");
  });
  host.get("/x", [](const Request&) { return json(200, "fast"); });
  const int port = host.start();
  std::vector<std::unique_ptr<Raw>> stuck;
  for (int i = 0; i < 20; ++i) {
    stuck.push_back(std::make_unique<Raw>(port));
    stuck.back()->send("GET /x HTT");
  }
  Raw slow(port);
  slow.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
  Raw fast(port);
  fast.send(kGet);
  EXPECT_EQ(fast.read_answer().body, "fast");
  release.set_value();
  EXPECT_EQ(slow.read_answer().body, "slow");
}

TEST(Server, AFullQueueAnswersOverloaded) {
  ServerOptions options;
  options.workers = 1;
  options.queue_limit = 1;
  TestServer host(options);
  std::promise<void> release;
  auto released = release.get_future().share();
  std::atomic<int> running = 0;
  host.get("/x", [released, &running](const Request&) {
    ++running;
    released.wait();
    return json(200, "ok");
  });
  const int port = host.start();
  Raw first(port), second(port), third(port);
  first.send(kGet);
  ASSERT_TRUE(eventually([&] { return running == 1; }));
  second.send(kGet);
  third.send(kGet);  // one of the two waits in the queue, the other is turned away
  std::future<RawAnswer> answers[] = {std::async([&] { return second.read_answer(); }),
                                      std::async([&] { return third.read_answer(); })};
  ASSERT_TRUE(eventually([&] {
    return answers[0].wait_for(Millis(0)) == std::future_status::ready ||
           answers[1].wait_for(Millis(0)) == std::future_status::ready;
  }));
  release.set_value();
  const RawAnswer a = answers[0].get(), b = answers[1].get();
  const RawAnswer& refused = a.status == 503 ? a : b;
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("Overloaded"));
  EXPECT_GE(std::stoi(refused.headers.at("retry-after")), 1);
  EXPECT_EQ(a.status + b.status, 503 + 200);
}

TEST(Server, ConnectionsBeyondTheLimitGetTheir503) {
  ServerOptions options;
  options.limits.connections = 2;
  TestServer host(options);
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<int> under_way = 0;
  host.get("/wait", [&](const Request&) {
    ++under_way;
    released.wait();
    return json(200, "ok");
  });
  const int port = host.start();
  Raw first(port), second(port);
  for (Raw* client : {&first, &second}) client->send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return under_way == 2; }));
  Raw third(port);
  third.send(kGet);
  EXPECT_EQ(third.read_answer().status, 503);
  EXPECT_TRUE(third.ends());
  release.set_value();
  for (Raw* client : {&first, &second}) EXPECT_EQ(client->read_answer().status, 200);
}

TEST(Server, WaitersWakeTimeOutAndLoseNothing) {
  TestServer host;
  Waiters waiters;
  std::atomic<int> waiting = 0;
  host.stream("GET", "/wait", [&](Exchange& exchange) -> Task<> {
    const uint64_t ticket = waiters.ticket("key");
    if (exchange.request().query_value("notify")) waiters.notify("key");  // between ticket and wait
    ++waiting;
    const Millis time(exchange.request().query_value("short") ? 20 : 10'000);
    const bool woken = co_await waiters.wait("key", ticket, time);
    co_await exchange.respond(json(200, woken ? "woken" : "timeout"));
  });
  const int port = host.start();
  Raw early(port);
  early.send("GET /wait?notify=1 HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(early.read_answer().body, "woken");
  early.send("GET /wait?short=1 HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(early.read_answer().body, "timeout");
  std::vector<std::unique_ptr<Raw>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<Raw>(port));
    clients.back()->send("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
  }
  ASSERT_TRUE(eventually([&] { return waiting == 22; }));
  waiters.notify("another key");
  waiters.notify("key");
  for (auto& client : clients) EXPECT_EQ(client->read_answer().body, "woken");
}

TEST(Server, HealthRoutes) {
  TestServer host;
  std::atomic<bool> ready = false;
  host.server.health_routes([&]() -> Result<void> {
    if (ready) return {};
    return fail(Code::kUnavailable, "DatabaseDown", "The database does not answer.");
  });
  Raw client(host.start());
  const auto get = [&](const char* path) {
    client.send(std::string("GET ") + path + " HTTP/1.1\r\nHost: h\r\n\r\n");
    return client.read_answer();
  };
  EXPECT_EQ(get("/livez").status, 200);
  EXPECT_EQ(get("/readyz").status, 503);
  ready = true;
  EXPECT_EQ(get("/readyz").status, 200);
  EXPECT_THAT(get("/metrics").body, HasSubstr("nodus_http_requests_total{route=\"readyz\",status=\"5xx\"}"));
}

TEST(Server, StopLetsRequestsFinishAndCutsOffTheRest) {
  auto host = std::make_unique<TestServer>();
  std::promise<void> release;
  auto released = release.get_future().share();
  std::atomic<int> running = 0;
  host->get("/x", [&running, released](const Request&) {
    ++running;
    released.wait();
    return json(200, "finished");
  });
  Waiters waiters;
  host->stream("GET", "/forever", [&](Exchange&) -> Task<> {
    ++running;
    co_await waiters.wait("never", waiters.ticket("never"), Millis(3'600'000));
  });
  const int port = host->start();
  Raw idle(port), busy(port), forever(port);
  busy.send(kGet);
  forever.send("GET /forever HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return running == 2; }));
  auto stopping = std::async([&] { host->server.stop(Millis(2'000)); });
  EXPECT_TRUE(idle.ends());  // at once
  release.set_value();
  const RawAnswer answer = busy.read_answer();
  EXPECT_EQ(answer.body, "finished");
  EXPECT_TRUE(forever.ends());
  stopping.wait();
  host.reset();
}

TEST(Server, ATakenPortIsAnError) {
  TestServer host;
  const int port = host.start();
  ServerOptions options;
  options.listen = "127.0.0.1:" + std::to_string(port);
  Server second(options);
  const auto started = second.start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().reason, "PortTaken");
  ServerOptions nonsense;
  nonsense.listen = "localhost";
  EXPECT_EQ(Server(nonsense).start().error().reason, "ListenAddressInvalid");
}

}  // namespace
}  // namespace nodus::http
