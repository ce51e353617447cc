#include "libs/http/client.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/awaitable.hpp>

#include "tests/unit/http/raw.hpp"

namespace nodus::http {
namespace {

template <class T = void>
using Task = boost::asio::awaitable<T>;

class ClientTest : public testing::Test {
 protected:
  ClientTest() {
    host_.add("POST", "/echo", [this](const Request& r) {
      std::lock_guard lock(mutex_);
      ++peers_[r.peer];
      Response response = json(r.headers.get("X-Fail") ? 422 : 200, r.body);
      response.headers.set("X-Method", r.method);
      return response;
    });
    host_.get("/big", [](const Request&) { return json(200, std::string(100'000, 'x')); });
    host_.stream("GET", "/broken", [](Exchange& exchange) -> Task<> {
      co_await exchange.begin(200, {});
      co_await exchange.write("half");
    });
    host_.stream("GET", "/silent", [this](Exchange& exchange) -> Task<> {
      co_await waiters_.wait("never", waiters_.ticket("never"), Millis(60'000));
      co_await exchange.respond(json(200, ""));
    });
    host_.start();
  }
  Result<Response> get(const std::string& target) {
    ClientRequest request;
    request.url = host_.url(target);
    return client_.call(request);
  }
  std::mutex mutex_;
  std::map<std::string, int> peers_;
  Waiters waiters_;
  TestServer host_;
  Client client_;
};

TEST_F(ClientTest, SendsAndCollects) {
  ClientRequest request;
  request.method = "POST";
  request.url = host_.url("/echo");
  request.body = std::string("a\0b", 3);
  request.headers.set("X-Fail", "1");
  const auto answer = client_.call(request);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 422);  // a status is an answer, not an error
  EXPECT_EQ(answer->body, request.body);
  EXPECT_EQ(answer->headers.get("x-method"), "POST");
  request.body.clear();
  EXPECT_EQ(client_.call(request)->body, "");
}

TEST_F(ClientTest, StreamsBothWays) {
  for (const bool known : {false, true}) {
    const std::string body(3'000'000, 'y');
    size_t given = 0;
    std::string taken;
    ClientRequest request;
    request.method = "POST";
    request.url = host_.url("/echo");
    request.read_body = [&](char* into, size_t space) {
      const size_t part = std::min(space, 900'000 - given);
      body.copy(into, part, given);
      given += part;
      return part;
    };
    if (known) request.body_size = 900'000;
    request.on_body = [&](std::string_view part) {
      taken += part;
      return true;
    };
    const auto answer = client_.call(request);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(taken, body.substr(0, 900'000));
  }
}

TEST_F(ClientTest, TellsNothingSentFromLost) {
  int free_port = 0;
  {
    TestServer gone;
    free_port = gone.start();
  }
  ClientRequest request;
  request.url = "http://127.0.0.1:" + std::to_string(free_port) + "/x";
  EXPECT_EQ(client_.call(request).error().reason, "ConnectionFailed");
  request.url = "http://host.invalid./x";
  EXPECT_EQ(client_.call(request).error().reason, "ConnectionFailed");
  const auto lost = get("/broken");
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().reason, "ConnectionLost");
  EXPECT_EQ(lost.error().code, Code::kUnavailable);
  request.url = "ftp://127.0.0.1/x";
  EXPECT_EQ(client_.call(request).error().reason, "UrlInvalid");
}

TEST_F(ClientTest, TimesOutInTotalAndWhenIdle) {
  ClientRequest request;
  request.url = host_.url("/silent");
  request.total_time = Millis(50);
  EXPECT_EQ(client_.call(request).error().reason, "RequestTimedOut");
  request.total_time = Millis(0);
  request.idle_time = Millis(100);
  EXPECT_EQ(client_.call(request).error().reason, "RequestTimedOut");
}

TEST_F(ClientTest, LimitsWhatItCollectsAndCanBeEnded) {
  ClientRequest request;
  request.url = host_.url("/big");
  request.response_limit = 1000;
  EXPECT_EQ(client_.call(request).error().reason, "ResponseTooLarge");
  int parts = 0;
  request.on_body = [&](std::string_view) { return ++parts < 1; };
  const auto ended = client_.call(request);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 200);
  EXPECT_EQ(get("/big")->body.size(), 100'000u);
}

}  // namespace
}  // namespace nodus::http
