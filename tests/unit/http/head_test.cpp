#include <gtest/gtest.h>

#include "libs/http/chunked.hpp"
#include "libs/http/head.hpp"
#include "libs/http/router.hpp"
#include "libs/http/target.hpp"

namespace nodus::http {
namespace {

TEST(Head, ReadsWhatMattersOnce) {
  const auto head = check_header_block(
      "PUT /a?b=c HTTP/1.1\r\nHost: h:1\r\nX: \t v w \t\r\nContent-Length: 007\r\n"
      "Connection: keep-alive, Close\r\nExpect: 100-Continue\r\n\r\n");
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_EQ(head->method, "PUT");
  EXPECT_EQ(head->target, "/a?b=c");
  EXPECT_EQ(head->headers.get("x"), "v w");
  EXPECT_EQ(head->framing, Framing::kLength);
  EXPECT_EQ(head->length, 7u);
  EXPECT_FALSE(head->keep_alive);
  EXPECT_TRUE(head->expect_continue);
}

TEST(Head, EveryPrefixIsIncomplete) {
  const std::string block = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
  for (size_t size = 0; size < block.size(); ++size) {
    size_t scanned = 0;
    EXPECT_EQ(find_head_end(std::string_view(block).substr(0, size), scanned), HeadEnd::kNotYet) << size;
    EXPECT_FALSE(check_header_block(std::string_view(block).substr(0, size))) << size;
  }
  size_t scanned = 0;
  EXPECT_EQ(find_head_end(block + "rest", scanned), HeadEnd::kFound);
  EXPECT_EQ(scanned, block.size());
  EXPECT_FALSE(check_header_block(block + "rest"));
}

TEST(Head, Answers) {
  const auto answer = check_answer_block("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->length, 3u);
  for (const char* bad :
       {"HTTP/1.1 20 OK\r\n\r\n", "HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "ICY 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n"})
    EXPECT_FALSE(check_answer_block(bad)) << bad;
}

TEST(Target, DecodesOnce) {
  const auto target = parse_target("/apis/a%20b/c%2Bd?path=/w/x%20y&q=a+b&empty=&flag&u=%C3%A4");
  ASSERT_TRUE(target) << target.error().message;
  EXPECT_EQ(target->segments, (std::vector<std::string>{"apis", "a b", "c+d"}));
  EXPECT_EQ(target->query.find("path")->second, "/w/x y");
  EXPECT_EQ(target->query.find("q")->second, "a b");
  EXPECT_EQ(target->query.find("flag")->second, "");
  EXPECT_EQ(target->query.find("u")->second, "\xc3\xa4");
  EXPECT_EQ(parse_target("/" + escape("a b%"))->segments[0], "a b%");
  EXPECT_EQ(parse_target("/x?p=" + escape("/w/a b&c=d+%\n", true))->query.find("p")->second,
            "/w/a b&c=d+%\n");
}

// Names are text everywhere, and end in a database that takes nothing else; only a file may be called
// anything.
TEST(Target, IsUtf8ButForAFilesPath) {
  for (const char* bad :
       {"/a/d%efault", "/%ff", "/a%ed%a0%80", "/a%c0%af", "/x?sandbox=%ff", "/x?%ff=1", "/x?path=a&b=%80"})
    EXPECT_FALSE(parse_target(bad)) << bad;
  EXPECT_EQ(parse_target("/x?path=/%ff")->query.find("path")->second, "/\xff");
  EXPECT_EQ(parse_target("/%e2%82%ac?q=%f0%9f%98%80")->segments[0], "\xe2\x82\xac");
}

TEST(Chunks, AnySplitGivesTheSameBody) {
  const std::string wire = "5\r\nhello\r\n6\r\n world\r\n0\r\nT: x\r\n\r\nNEXT";
  for (size_t step = 1; step <= wire.size(); ++step) {
    ChunkDecoder decoder;
    std::string body;
    size_t taken = 0;
    while (taken < wire.size() && !decoder.done()) {
      const size_t got = decoder.feed(std::string_view(wire).substr(taken, step), body, 3);
      ASSERT_FALSE(decoder.malformed());
      taken += got;
      if (got == 0) ASSERT_FALSE(body.empty());
    }
    EXPECT_EQ(body, "hello world");
    EXPECT_EQ(wire.substr(taken), "NEXT");
  }
}

TEST(Router, LiteralsWinAndMethodsAreListed) {
  Router router;
  const auto add = [&](const char* method, const char* pattern) {
    Route route;
    route.method = method;
    route.pattern = route.name = pattern;
    route.handler = [](const Request&) { return Response{}; };
    router.add(std::move(route));
  };
  add("GET", "/a/{name}");
  add("GET", "/a/literal");
  add("POST", "/a/{name}");
  add("GET", "/a/{name}/{rest}");
  EXPECT_EQ(router.find("GET", {"a", "literal"}).route->pattern, "/a/literal");
  EXPECT_EQ(router.find("POST", {"a", "literal"}).route->pattern, "/a/{name}");
  const auto match = router.find("HEAD", {"a", "b", "c"});
  ASSERT_TRUE(match.route);
  EXPECT_EQ(match.params.at("name"), "b");
  EXPECT_EQ(match.params.at("rest"), "c");
  EXPECT_EQ(router.find("PUT", {"a", "b"}).allow, "GET, HEAD, POST");
  EXPECT_EQ(router.find("GET", {"b"}).allow, "");
}

TEST(Headers, ValuesStayOnTheirLine) {
  Headers headers;
  headers.set("X", std::string_view("a\r\nEvil: b\0c", 12));
  EXPECT_EQ(headers.get("x"), "a  Evil: b c");
  headers.add("x", "2");
  headers.set("X", "3");
  EXPECT_EQ(headers.all().size(), 1u);
}

}  // namespace
}  // namespace nodus::http
