// WebSocket: the decoder byte by byte, the handshake, and both sides talking to each other.
#include "libs/http/websocket.hpp"

#include <gtest/gtest.h>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <random>
#include <thread>

#include "libs/http/websocket_client.hpp"
#include "tests/unit/http/raw.hpp"

namespace nodus::http {
namespace {
using boost::asio::awaitable;
using websocket::Decoder;
using websocket::encode_close;
using websocket::encode_frame;
using websocket::Opcode;
constexpr std::string_view kMask = "mask";

// What a decoder makes of the bytes, given `step` at a time: one line an event, and the fault.
std::string decode(std::string_view bytes, size_t step = 1'000'000, bool masked = true, size_t limit = 1000) {
  Decoder decoder(masked, limit);
  std::string told;
  while (!bytes.empty() && !decoder.fault()) {
    std::string_view part = bytes.substr(0, step);
    bytes.remove_prefix(part.size());
    while (auto event = decoder.next(part)) {
      const char* names[] = {"?", "text", "binary", "", "", "", "", "", "close", "ping", "pong"};
      told += names[static_cast<int>(event->opcode)];
      if (event->opcode == Opcode::kClose) told += " " + std::to_string(event->code);
      told += " " + event->payload + "\n";
    }
  }
  if (decoder.fault()) told += "fault " + std::to_string(decoder.fault());
  return told;
}

std::string masked(Opcode opcode, std::string_view payload) {
  return encode_frame(opcode, payload, kMask);
}

std::string with_first_byte(std::string frame, int byte) {
  frame[0] = static_cast<char>(byte);
  return frame;
}

TEST(WebSocketDecoder, ReadsFramesHoweverTheyAreCut) {
  const std::string part = masked(Opcode::kText, "one");
  const std::string long_one(300, 'x');
  const std::string bytes = part + masked(Opcode::kBinary, long_one) + with_first_byte(part, 0x01) +
                            masked(Opcode::kPing, "p") + with_first_byte(part, 0x00) +
                            with_first_byte(part, 0x80) + masked(Opcode::kText, "") +
                            encode_close(1001, "bye", kMask);
  const std::string told =
      "text one\nbinary " + long_one + "\nping p\ntext oneoneone\ntext \nclose 1001 bye\n";
  for (const size_t step : {1ul, 2ul, 3ul, 7ul, 1'000'000ul}) EXPECT_EQ(decode(bytes, step), told) << step;
}

TEST(WebSocketDecoder, RefusesWhatIsNotAllowed) {
  const std::string one = masked(Opcode::kText, "one"), ping = masked(Opcode::kPing, "p");
  const struct {
    const char* name;
    std::string bytes;
    const char* told;
  } cases[] = {
      {"not masked", encode_frame(Opcode::kText, "one"), "fault 1002"},
      {"reserved bit", with_first_byte(one, 0xc1), "fault 1002"},
      {"unknown opcode", with_first_byte(one, 0x83), "fault 1002"},
      {"unknown control opcode", with_first_byte(one, 0x8b), "fault 1002"},
      {"continuation of nothing", with_first_byte(one, 0x80), "fault 1002"},
      {"message in a message", with_first_byte(one, 0x01) + one, "fault 1002"},
      {"fragmented ping", with_first_byte(ping, 0x09), "fault 1002"},
      {"long ping", masked(Opcode::kPing, std::string(126, 'x')), "fault 1002"},
      {"16 bit length for 5", std::string("\x81\xfe\x00\x05", 4), "fault 1002"},
      {"64 bit length for 126", std::string("\x81\xff\x00\x00\x00\x00\x00\x00\x00\x7e", 10) + "mask",
       "fault 1002"},
      {"length beyond 63 bits", std::string("\x81\xff\x80\x00\x00\x00\x00\x00\x00\x00", 10) + "mask",
       "fault 1002"},
      {"too large", masked(Opcode::kBinary, std::string(1001, 'x')), "fault 1009"},
      {"too large, by its head", std::string("\x82\xff\x00\x00\x00\x10\x00\x00\x00\x00", 10) + "mask",
       "fault 1009"},
      {"too large in parts",
       with_first_byte(masked(Opcode::kBinary, std::string(600, 'x')), 0x02) +
           with_first_byte(masked(Opcode::kBinary, std::string(600, 'x')), 0x80),
       "fault 1009"},
      {"text that is not UTF-8", masked(Opcode::kText, "\xc0\xaf"), "fault 1007"},
      {"surrogate", masked(Opcode::kText, "\xed\xa0\x80"), "fault 1007"},
      {"close with one byte", masked(Opcode::kClose, "x"), "fault 1002"},
      {"close with a code that is never sent", encode_close(1006, "", kMask), "fault 1002"},
      {"close with a code out of range", encode_close(999, "", kMask), "fault 1002"},
      {"close with a reason that is not UTF-8", encode_close(1000, "\xff", kMask), "fault 1007"},
      {"close without a code", masked(Opcode::kClose, ""), "close 1005 \n"},
  };
  for (const auto& c : cases)
    for (const size_t step : {1ul, 1'000'000ul}) {
      // A length is judged when the whole head is there.
      const std::string bytes = c.bytes.size() < 6 ? c.bytes + "mask" : c.bytes;
      EXPECT_EQ(decode(bytes, step), c.told) << c.name;
    }
}

TEST(WebSocketDecoder, WhatIsEncodedIsDecodedAndNoiseIsHarmless) {
  for (uint32_t seed = 1; seed <= 3'000; ++seed) {
    std::mt19937 random(seed);
    std::string bytes, told;
    for (int frame = 0; frame < 3; ++frame) {
      std::string payload(random() % 300, '\0');
      for (char& c : payload) c = static_cast<char>(random());
      bytes += masked(Opcode::kBinary, payload);
      told += "binary " + payload + "\n";
    }
    ASSERT_EQ(decode(bytes, 1 + random() % 50), told) << "seed " << seed;
    for (int i = 0; i < 4; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    decode(bytes, 1 + random() % 50);  // neither crashes nor grows beyond its limit
  }
}

Request opening() {
  Request request;
  request.method = "GET";
  request.headers.set("Connection", "keep-alive, Upgrade");
  request.headers.set("Upgrade", "WebSocket");
  request.headers.set("Sec-WebSocket-Version", "13");
  request.headers.set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
  return request;
}

TEST(WebSocketHandshake, IsStrict) {
  const std::vector<std::string> spoken{"v5", "v4"};
  bool wrong_version = false;
  EXPECT_EQ(websocket::check_handshake(opening(), spoken, wrong_version)->accept,
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  auto request = opening();
  request.headers.add("Sec-WebSocket-Protocol", "v3, v4");
  request.headers.add("Sec-WebSocket-Protocol", "v5");
  EXPECT_EQ(websocket::check_handshake(request, spoken, wrong_version)->protocol, "v5");
  const std::pair<const char*, std::function<void(Request&)>> faults[] = {
      {"method", [](Request& r) { r.method = "POST"; }},
      {"no upgrade", [](Request& r) { r.headers.erase("Upgrade"); }},
      {"another upgrade", [](Request& r) { r.headers.set("Upgrade", "h2c"); }},
      {"no connection", [](Request& r) { r.headers.set("Connection", "keep-alive"); }},
      {"version", [](Request& r) { r.headers.set("Sec-WebSocket-Version", "8"); }},
      {"two versions", [](Request& r) { r.headers.add("Sec-WebSocket-Version", "13"); }},
      {"no key", [](Request& r) { r.headers.erase("Sec-WebSocket-Key"); }},
      {"short key", [](Request& r) { r.headers.set("Sec-WebSocket-Key", "dGhlIHNhbXBsZQ=="); }},
      {"key that is not base64",
       [](Request& r) { r.headers.set("Sec-WebSocket-Key", "the sample nonce !!!!!!!"); }},
      {"two keys", [](Request& r) { r.headers.add("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="); }},
      {"body", [](Request& r) { r.headers.set("Content-Length", "1"); }},
      {"protocol", [](Request& r) { r.headers.set("Sec-WebSocket-Protocol", "v1"); }},
  };
  for (const auto& [name, spoil] : faults) {
    auto spoiled = opening();
    spoil(spoiled);
    const auto result = websocket::check_handshake(spoiled, spoken, wrong_version);
    ASSERT_FALSE(result.has_value()) << name;
    EXPECT_EQ(result.error().code, Code::kBadRequest) << name;
  }
}

// Says back what it hears; "bye" makes it close.
awaitable<void> echo(Exchange& exchange, WebSocketOptions options) {
  using boost::asio::experimental::awaitable_operators::operator&&;
  options.protocols = {"v5", "v4"};
  auto socket = co_await exchange.upgrade(std::move(options));
  if (!socket) co_return;
  WebSocket& peer = **socket;
  const auto talk = [](WebSocket& of) -> awaitable<void> {
    for (;;) {
      auto message = co_await of.read();
      if (!message) co_return;
      if (*message == "bye")
        co_await of.close(websocket::kNormal, "");
      else if (!co_await of.write(*message))
        co_return;
    }
  };
  co_await (talk(peer) && peer.keep_alive());
}

class WebSocketTest : public testing::Test {
 protected:
  void serve(WebSocketOptions options = {}) {
    server.stream("GET", "/echo", [options](Exchange& exchange) { return echo(exchange, options); });
    port = server.start();
  }
  Result<std::unique_ptr<WebSocketClient>> connect(std::vector<std::string> protocols = {"v4"}) {
    WebSocketTarget target;
    target.url = server.url("/echo?x=1");
    target.protocols = std::move(protocols);
    return WebSocketClient::open(target);
  }
  static std::string request(std::string_view more = "") {
    return "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
           std::string(more) + "\r\n";
  }
  TestServer server;
  int port = 0;
};

TEST_F(WebSocketTest, BothSidesTalk) {
  serve();
  auto client = connect();
  ASSERT_TRUE(client.has_value()) << client.error().message;
  EXPECT_EQ((*client)->protocol(), "v4");
  for (const size_t size : {0ul, 1ul, 125ul, 126ul, 65'535ul, 65'536ul, 1'000'000ul}) {
    const std::string message(size, 'm');
    ASSERT_TRUE((*client)->write(message).has_value());
    auto back = (*client)->read(Seconds(20));
    ASSERT_TRUE(back.has_value() && back->has_value()) << size;
    EXPECT_EQ(**back, message);
  }
  ASSERT_TRUE((*client)->write("bye").has_value());
  EXPECT_EQ((*client)->read(Seconds(20)).error().reason, "Closed");
  EXPECT_EQ((*client)->close_code(), 1000);
}

TEST_F(WebSocketTest, PingsGoBothWaysAndASilentPeerIsGivenUp) {
  serve({.protocols = {},
         .ping_time = Millis(20),
         .silence = Millis(200),
         .write_time = Seconds(5),
         .close_time = Seconds(1)});
  auto client = connect();
  ASSERT_TRUE(client.has_value());
  // One that answers pings stays for many times the silence that is suffered.
  const auto until = std::chrono::steady_clock::now() + Millis(800);
  while (std::chrono::steady_clock::now() < until) ASSERT_TRUE((*client)->read(Millis(50)).has_value());
  Raw silent(port);
  silent.send(request());
  EXPECT_EQ(silent.read_answer(true).status, 101);
  EXPECT_FALSE(silent.read_all().empty());  // pings, and then the end
}

TEST_F(WebSocketTest, BytesSentWithTheRequestAreNotLost) {
  serve();
  Raw client(port);
  client.send(request() + encode_frame(Opcode::kBinary, "early", kMask) +
              encode_frame(Opcode::kPing, "p", kMask) + encode_close(1000, "", kMask));
  EXPECT_EQ(client.read_answer(true).status, 101);
  EXPECT_EQ(client.read_all(), encode_frame(Opcode::kBinary, "early") + encode_frame(Opcode::kPong, "p") +
                                   encode_close(1000, ""));
}

TEST_F(WebSocketTest, AFaultIsSaidAndEndsIt) {
  serve();
  Raw client(port);
  client.send(request() + encode_frame(Opcode::kBinary, "not masked"));
  EXPECT_EQ(client.read_answer(true).status, 101);
  EXPECT_EQ(client.read_all(), encode_close(1002, ""));
}

TEST_F(WebSocketTest, WhatIsNotAnOpeningIsAnswered) {
  serve();
  const auto answer_of = [&](std::string text) {
    Raw client(port);
    client.send(text);
    return client.read_answer();
  };
  EXPECT_EQ(answer_of("GET /echo HTTP/1.1\r\nHost: a\r\n\r\n").status, 400);
  auto old = request();
  old.replace(old.find("Version: 13"), 11, "Version: 12");
  const auto answer = answer_of(old);
  EXPECT_EQ(answer.status, 426);
  EXPECT_EQ(answer.headers.at("sec-websocket-version"), "13");
  EXPECT_EQ(answer_of(request("Content-Length: 2\r\n") + "ab").status, 400);
  EXPECT_EQ(connect({"v9"}).error().reason, "BadRequest");
}

TEST_F(WebSocketTest, ThroughAProxy) {
  serve();
  TestServer front;
  front.stream("GET", "/through", [&](Exchange& exchange) -> awaitable<void> {
    Upstream to;
    to.host = "127.0.0.1";
    to.port = port;
    to.target = "/echo";
    for (const auto& [name, value] : exchange.request().headers.all())
      if (name.starts_with("Sec-") || name == "Upgrade") to.headers.set(name, value);
    co_await exchange.proxy(std::move(to));
  });
  front.start();
  WebSocketTarget target;
  target.url = front.url("/through");
  target.protocols = {"v5"};
  auto client = WebSocketClient::open(target);
  ASSERT_TRUE(client.has_value()) << client.error().message;
  EXPECT_EQ((*client)->protocol(), "v5");
  std::thread writer([&] {
    for (int i = 0; i < 50; ++i) ASSERT_TRUE((*client)->write(std::string(50'000, 'w')).has_value());
    ASSERT_TRUE((*client)->write("bye").has_value());
  });
  size_t heard = 0;
  for (;;) {
    auto message = (*client)->read(Seconds(20));
    if (!message) break;
    heard += message->value_or("").size();
  }
  writer.join();
  EXPECT_EQ(heard, 2'500'000u);
  EXPECT_EQ((*client)->close_code(), 1000);
}

}  // namespace
}  // namespace nodus::http
