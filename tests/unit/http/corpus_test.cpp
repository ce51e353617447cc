// Bytes a hostile or broken client may send, and what must come of them: one line a case. `marker` requests
// prove that the server and the client agree where a request ends: /poison must never run.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>

#include "tests/unit/http/raw.hpp"

namespace nodus::http {
namespace {

class Corpus : public testing::Test {
 protected:
  static ServerOptions options() {
    ServerOptions made;
    made.limits.header_bytes = 4096;
    made.limits.body_bytes = 1000;
    return made;
  }
  Corpus() : host_(options()) {
    const auto echo = [](const Request& request) { return json(200, request.body); };
    host_.get("/", [](const Request&) { return json(200, "root"); });
    host_.get("/x", echo);
    host_.add("POST", "/x", echo);
    host_.get("/auth",
              [](const Request& r) { return json(200, r.headers.get("Authorization").value_or("none")); });
    host_.add("POST", "/auth",
              [](const Request& r) { return json(200, r.headers.get("Authorization").value_or("none")); });
    host_.get("/poison", [this](const Request&) {
      ++poisoned_;
      return json(200, "poison");
    });
    port_ = host_.start();
  }
  TestServer host_;
  std::atomic<int> poisoned_ = 0;
  int port_ = 0;
};

struct Case {
  const char* name;
  std::string bytes;
  int status;   // of the first answer
  bool closes;  // the connection ends after that answer
};

const std::string kEnd = "\r\n\r\n";
const std::string kGet = "GET /x HTTP/1.1\r\nHost: h\r\n";
const std::string kPost = "POST /x HTTP/1.1\r\nHost: h\r\n";
const std::string kPoison = "GET /poison HTTP/1.1\r\nHost: h\r\n\r\n";

std::vector<Case> cases() {
  return {
      {"plain", kGet + "\r\n", 200, false},
      {"root", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 200, false},
      {"post", kPost + "Content-Length: 2\r\n\r\nhi", 200, false},
      {"chunked", kPost + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 200, false},
      {"chunked in capitals", kPost + "Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n", 200, false},
      {"HTTP/1.0 closes", "GET /x HTTP/1.0\r\nHost: h\r\n\r\n", 200, true},
      {"connection close", kGet + "Connection: close\r\n\r\n", 200, true},
      {"no host", "GET /x HTTP/1.1\r\n\r\n", 400, true},
      {"no host in 1.0", "GET /x HTTP/1.0\r\n\r\n", 400, true},
      {"two hosts", kGet + "Host: h\r\n\r\n", 400, true},
      {"empty host", "GET /x HTTP/1.1\r\nHost:\r\n\r\n", 400, true},
      {"host with a path", "GET /x HTTP/1.1\r\nHost: h/evil\r\n\r\n", 400, true},
      {"host with a space", "GET /x HTTP/1.1\r\nHost: h evil\r\n\r\n", 400, true},
      {"obs-fold", kGet + "X: a\r\n b\r\n\r\n", 400, true},
      {"obs-fold with a tab", kGet + "X: a\r\n\tb\r\n\r\n", 400, true},
      {"fold as the first field", "GET /x HTTP/1.1\r\n Host: h\r\n\r\n", 400, true},
      {"space before the colon", kPost + "Content-Length : 2\r\n\r\nhi", 400, true},
      {"tab before the colon", kPost + "Content-Length\t: 2\r\n\r\nhi", 400, true},
      {"no name", kGet + ": x\r\n\r\n", 400, true},
      {"no colon", kGet + "Nonsense\r\n\r\n", 400, true},
      {"name with a bracket", kGet + "X(y): z\r\n\r\n", 400, true},
      {"value with NUL", kGet + std::string("X: a\0b", 6) + kEnd, 400, true},
      {"value with a bare CR", kGet + "X: a\rb" + kEnd, 400, true},
      {"value with DEL", kGet + "X: a\x7f" + kEnd, 400, true},
      {"bare LF", "GET /x HTTP/1.1\nHost: h\n\n", 400, true},
      {"one bare LF", kGet + "X: y\n\r\n", 400, true},
      {"LF in the empty line", kGet + "\n", 400, true},
      {"CR CR LF", kGet + "X: y\r\r\n\r\n", 400, true},
      {"empty line first", "\r\n" + kGet + "\r\n", 400, true},
      {"TLS hello", std::string("\x16\x03\x01\x02\x00\x01\x00\x01", 8), 400, true},
      {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, true},
      {"both framings", kPost + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + kPoison,
       400, true},
      {"both framings, swapped",
       kPost + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + kPoison, 400, true},
      {"gzip", kPost + "Transfer-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi", 400, true},
      {"gzip, chunked", kPost + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, true},
      {"chunked, identity", kPost + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + kPoison, 400,
       true},
      {"identity", kPost + "Transfer-Encoding: identity\r\n\r\n" + kPoison, 400, true},
      {"xchunked", kPost + "Transfer-Encoding: xchunked\r\n\r\n" + kPoison, 400, true},
      {"quoted chunked", kPost + "Transfer-Encoding: \"chunked\"\r\n\r\n" + kPoison, 400, true},
      {"chunked with vertical tab",
       kPost + "Transfer-Encoding: \x0b"
               "chunked\r\n\r\n0\r\n\r\n",
       400, true},
      {"empty encoding", kPost + "Transfer-Encoding:\r\n\r\n" + kPoison, 400, true},
      {"two encodings", kPost + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       400, true},
      {"two encodings, one odd",
       kPost + "Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n\r\n0\r\n\r\n", 400, true},
      {"chunked in 1.0", "POST /x HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
       true},
      {"two lengths", kPost + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi!", 400, true},
      {"two equal lengths", kPost + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi", 400, true},
      {"list of lengths", kPost + "Content-Length: 2, 2\r\n\r\nhi", 400, true},
      {"plus length", kPost + "Content-Length: +2\r\n\r\nhi", 400, true},
      {"minus length", kPost + "Content-Length: -2\r\n\r\nhi", 400, true},
      {"hex length", kPost + "Content-Length: 0x2\r\n\r\nhi", 400, true},
      {"empty length", kPost + "Content-Length:\r\n\r\n", 400, true},
      {"spaced length", kPost + "Content-Length: 1 2\r\n\r\nhi", 400, true},
      {"endless length", kPost + "Content-Length: 99999999999999999999\r\n\r\nhi", 400, true},
      {"two authorizations", kGet + "Authorization: a\r\nAuthorization: b\r\n\r\n", 400, true},
      {"two idempotency keys", kPost + "Idempotency-Key: a\r\nIdempotency-Key: b\r\n\r\n", 400, true},
      {"odd expectation", kPost + "Expect: magic\r\nContent-Length: 2\r\n\r\nhi", 417, true},
      {"chunk extension", kPost + "Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0\r\n\r\n", 400, true},
      {"chunk size with a space", kPost + "Transfer-Encoding: chunked\r\n\r\n2 \r\nhi\r\n0\r\n\r\n", 400,
       true},
      {"chunk size 0x2", kPost + "Transfer-Encoding: chunked\r\n\r\n0x2\r\nhi\r\n0\r\n\r\n", 400, true},
      {"negative chunk", kPost + "Transfer-Encoding: chunked\r\n\r\n-2\r\nhi\r\n0\r\n\r\n", 400, true},
      {"no chunk size", kPost + "Transfer-Encoding: chunked\r\n\r\n\r\nhi\r\n0\r\n\r\n", 400, true},
      {"endless chunk size", kPost + "Transfer-Encoding: chunked\r\n\r\n00000000000000002\r\nhi\r\n", 400,
       true},
      {"chunk of 2^64", kPost + "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\nhi\r\n", 400, true},
      {"chunk line with LF", kPost + "Transfer-Encoding: chunked\r\n\r\n2\nhi\r\n0\r\n\r\n", 400, true},
      {"chunk without CRLF", kPost + "Transfer-Encoding: chunked\r\n\r\n2\r\nhiX0\r\n\r\n", 400, true},
      {"trailers without end", kPost + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + std::string(6000, 'a'),
       400, true},
      {"trailer with LF", kPost + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: a\n\r\n", 400, true},
      {"chunks too large",
       kPost + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + std::string(1001, 'a') + "\r\n0\r\n\r\n", 413,
       true},
      {"length too large", kPost + "Content-Length: 1001\r\n\r\n", 413, true},
      {"header too large", kGet + "X: " + std::string(5000, 'a') + kEnd, 431, true},
      {"endless request line", "GET /" + std::string(5000, 'a'), 431, true},
      {"101 fields",
       kGet +
           [] {
             std::string f;
             for (int i = 0; i < 101; ++i) f += "X: y\r\n";
             return f;
           }() +
           "\r\n",
       400, true},
      {"lower-case method", "get /x HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"no target", "GET HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"two spaces", "GET  /x HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"space in the target", "GET /x y HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"HTTP/1.2", "GET /x HTTP/1.2\r\nHost: h\r\n\r\n", 400, true},
      {"HTTP/0.9", "GET /x\r\n\r\n", 400, true},
      {"version in small letters", "GET /x http/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"absolute form", "GET http://h/poison HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"authority form", "CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n" + kPoison, 400, true},
      {"asterisk form", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"CONNECT with a path", "CONNECT /x HTTP/1.1\r\nHost: h\r\n\r\n" + kPoison, 405, true},
      {"dot segment", "GET /a/../x HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"encoded dot segment", "GET /a/%2e%2E/x HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"single dot", "GET /./x HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"encoded slash", "GET /a%2Fx HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"encoded backslash", "GET /a%5cx HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"encoded NUL", "GET /x%00 HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"encoded newline", "GET /x%0d%0aHost HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"broken escape", "GET /x%2 HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"escape of letters", "GET /x%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"double slash", "GET //x HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"slashes at the end", "GET /x// HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"fragment", "GET /x#y HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"bytes above 0x7f", "GET /\xc3\xa4 HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"NUL in the query", "GET /x?a=%00 HTTP/1.1\r\nHost: h\r\n\r\n", 400, true},
      {"encoded letter is the letter", "GET /%78 HTTP/1.1\r\nHost: h\r\n\r\n", 200, false},
      {"double encoding is decoded once", "GET /%2578 HTTP/1.1\r\nHost: h\r\n\r\n", 404, false},
      {"unknown path", "GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n", 404, false},
      {"unknown path with a body", "POST /nowhere HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi", 404,
       false},
      {"wrong method", "DELETE /x HTTP/1.1\r\nHost: h\r\n\r\n", 405, false},
      {"unknown method", "BREW /x HTTP/1.1\r\nHost: h\r\n\r\n", 405, false},
      {"TRACE", "TRACE /x HTTP/1.1\r\nHost: h\r\n\r\n", 405, false},
      {"h2c upgrade is ignored", kGet + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n", 200,
       false},
  };
}

TEST_F(Corpus, EachCase) {
  ASSERT_GE(cases().size(), 60u);
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    Raw client(port_);
    ASSERT_TRUE(client.send(c.bytes));
    const RawAnswer answer = client.read_answer();
    EXPECT_EQ(answer.status, c.status) << answer.body;
    EXPECT_TRUE(answer.whole);
    if (answer.status >= 400)
      EXPECT_NE(answer.body.find("\"kind\":\"Status\""), std::string::npos) << answer.body;
    EXPECT_EQ(answer.headers.contains("connection"), c.closes);
    if (c.closes) {
      EXPECT_TRUE(client.ends());
    } else {
      ASSERT_TRUE(client.send("GET /auth HTTP/1.1\r\nHost: h\r\n\r\n"));
      EXPECT_EQ(client.read_answer().body, "none");
    }
  }
  EXPECT_EQ(poisoned_, 0);
}

// The same bytes one at a time: nothing depends on how they arrive.
TEST_F(Corpus, EachCaseByteByByte) {
  for (const Case& c : cases()) {
    if (c.bytes.size() > 300) continue;
    SCOPED_TRACE(c.name);
    Raw client(port_);
    for (const char byte : c.bytes)
      if (!client.send({&byte, 1})) break;  // refused before the end
    EXPECT_EQ(client.read_answer().status, c.status);
  }
  EXPECT_EQ(poisoned_, 0);
}

TEST_F(Corpus, TrailersNeverBecomeHeaders) {
  Raw client(port_);
  client.send(
      "POST /auth HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: "
      "stolen\r\n\r\n" +
      kGet + "\r\n");
  EXPECT_EQ(client.read_answer().body, "none");
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(Corpus, PipelinedRequestsAreAnsweredInOrder) {
  Raw client(port_);
  std::string bytes;
  for (int i = 0; i < 50; ++i) {
    const std::string body = "body" + std::to_string(i);
    bytes += kPost + "Content-Length: " + std::to_string(body.size()) + kEnd + body;
    bytes += kPost + "Transfer-Encoding: chunked\r\n\r\n1\r\n" + std::to_string(i % 10) + "\r\n0\r\n\r\n";
  }
  client.send(bytes);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(client.read_answer().body, "body" + std::to_string(i));
    EXPECT_EQ(client.read_answer().body, std::to_string(i % 10));
  }
}

// Whatever happens to a valid request, the server answers below 500 or closes, and goes on serving.
TEST_F(Corpus, MutationsNeverCrashAndNeverGet5xx) {
  const std::vector<std::string> seeds{
      kGet + "Accept: */*\r\nAuthorization: Bearer abc\r\n\r\n",
      kPost + "Content-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"a\":\"hello\"}",
      kPost + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\nX-T: y\r\n\r\n",
      "GET /a/b%20c?x=1&y=%41+z HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\n\r\n",
      kPost + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi"};
  const std::vector<std::string> pieces{"\r\n",
                                        "\n",
                                        "\r",
                                        " ",
                                        "\t",
                                        ":",
                                        std::string(1, '\0'),
                                        "chunked",
                                        "0",
                                        "-1",
                                        "Content-Length: 7\r\n",
                                        "Transfer-Encoding: chunked\r\n",
                                        "%00",
                                        "%2f",
                                        "..",
                                        "HTTP/1.0",
                                        "\xff",
                                        "ffffffff",
                                        ";",
                                        "//"};
  const uint32_t seed = 20'241;
  std::mt19937 random(seed);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  int answered = 0;
  for (int round = 0; round < 2'500; ++round) {
    std::string bytes = seeds[below(seeds.size())];
    for (size_t changes = 1 + below(3); changes > 0; --changes) {
      const size_t at = below(bytes.size());
      switch (below(5)) {
        case 0:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 1:
          bytes.erase(at, 1 + below(8));
          break;
        case 2:
          bytes.insert(at, pieces[below(pieces.size())]);
          break;
        case 3:
          bytes.insert(at, bytes.substr(below(bytes.size()), below(20)));
          break;
        default:
          bytes.resize(at + 1);
      }
      if (bytes.empty()) bytes = "G";
    }
    SCOPED_TRACE(testing::Message() << "seed " << seed << " round " << round << ": "
                                    << testing::PrintToString(bytes));
    Raw client(port_);
    client.send(bytes);
    client.end_sending();
    // Every answer until the end; the end itself must come.
    for (RawAnswer answer = client.read_answer(); answer.status != 0; answer = client.read_answer()) {
      ++answered;
      ASSERT_LT(answer.status, 500);
    }
    ASSERT_TRUE(client.ends());
  }
  EXPECT_GT(answered, 500);
  Raw client(port_);
  client.send(kGet + "\r\n");
  EXPECT_EQ(client.read_answer().status, 200);
}

}  // namespace
}  // namespace nodus::http
