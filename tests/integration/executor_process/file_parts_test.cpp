// Uploads by parts, lost connections, and a slot that closes meanwhile.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/integration/executor_process/file_fixture.hpp"

namespace nodus::executor {
namespace {
class FilePartsTest : public FilesTest {};

TEST_P(FilePartsTest, UploadsComeByParts) {
  const std::string bytes = random_bytes(1'000'000);
  const auto part = [&](size_t from, size_t to, const std::string& total, const std::string& more = "") {
    return put(
        "big/f", bytes.substr(from, to - from), "&upload=upload-1" + more,
        {{"Content-Range", "bytes " + std::to_string(from) + "-" + std::to_string(to - 1) + "/" + total}});
  };
  EXPECT_EQ(reason(part(400'000, 500'000, "*")), "UploadUnknown");
  EXPECT_EQ(part(0, 400'000, "*").status, 202);
  const auto wrong = part(0, 400'000, "*");
  EXPECT_EQ(reason(wrong), "UploadOffset");
  EXPECT_EQ(json::parse(wrong.body).at("details").at("offset"), 400'000);
  EXPECT_EQ(get("big/f").status, 404);  // nobody sees it yet
  EXPECT_EQ(part(400'000, 900'000, "1000000").status, 202);
  EXPECT_EQ(json::parse(call("GET", target("big/f", "&upload=upload-1")).body).at("offset"), 900'000);
  const auto last = part(900'000, 1'000'000, "1000000", "&contentSHA256=" + sha256_hex(bytes));
  EXPECT_EQ(last.status, 200) << last.body;
  EXPECT_EQ(json::parse(last.body).at("sha256").as_string(), sha256_hex(bytes));
  EXPECT_EQ(part(900'000, 1'000'000, "1000000").body, last.body);  // its answer was lost
  EXPECT_EQ(sha256_hex(get("big/f").body), sha256_hex(bytes));
  // Another content than the caller says is not put in place.
  const Fields both = {{"Content-Range", "bytes 0-2/3"}};
  EXPECT_EQ(reason(put("g", "abc", "&upload=upload-2&contentSHA256=" + sha256_hex("x"), both)),
            "DigestMismatch");
  EXPECT_EQ(get("g").status, 404);
  // The end may come alone; a condition counts at the end.
  EXPECT_EQ(
      put("g", "abc", "&upload=upload-3&expectedSHA256=" + sha256_hex(""), {{"Content-Range", "bytes 0-2/*"}})
          .status,
      202);
  put("g", "first");
  EXPECT_EQ(reason(put("g", "", "&upload=upload-3&expectedSHA256=" + sha256_hex(""),
                       {{"Content-Range", "bytes */3"}})),
            "SHA256Mismatch");
  EXPECT_EQ(put("g", "abc", "&upload=upload-4", {{"Content-Range", "bytes 0-2/*"}}).status, 202);
  EXPECT_EQ(put("g", "", "&upload=upload-4", {{"Content-Range", "bytes */3"}}).status, 200);
  EXPECT_EQ(get("g").body, "abc");
  // Given up, and forgotten.
  EXPECT_EQ(put("h", "abc", "&upload=upload-5", {{"Content-Range", "bytes 0-2/*"}}).status, 202);
  EXPECT_EQ(call("DELETE", target("h", "&upload=upload-5")).status, 200);
  EXPECT_EQ(put("h", "abc", "&upload=upload-6", {{"Content-Range", "bytes 0-2/*"}}).status, 202);
  EXPECT_TRUE(eventually([&] { return nothing_left(""); }));
  EXPECT_EQ(reason(call("GET", target("h", "&upload=upload-6"))), "UploadUnknown");
}

// A connection of our own, which can break off.
int raw(int port, const std::string& bytes) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET, to.sin_port = htons(static_cast<uint16_t>(port)),
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  return fd;
}

TEST_P(FilePartsTest, ALostConnectionLeavesNothingOrGoesOn) {
  const auto head = [&](const std::string& to, const std::string& more) {
    return "PUT " + to + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token\r\n" + more + "\r\n";
  };
  for (const char* framing : {"Content-Length: 1000\r\n", "Transfer-Encoding: chunked\r\n"}) {
    const int fd = raw(server->port(), head(target("x/y/half"), framing) + "5\r\nhello\r\n");
    ASSERT_TRUE(eventually([&] { return get("x/y/half").status == 404 && !names("").empty(); }));
    close(fd);
    EXPECT_TRUE(eventually([&] { return names("").empty(); }));  // its directories are gone too
  }
  const std::string bytes(200'000, 'u');
  const int fd =
      raw(server->port(), head(target("f", "&upload=upload-1"),
                               "Content-Range: bytes 0-199999/200000\r\nContent-Length: 200000\r\n") +
                              bytes.substr(0, 150'000));
  close(fd);
  auto told = call("GET", target("f", "&upload=upload-1"));
  // The other connection may be heard after this one.
  ASSERT_TRUE(eventually([&] {
    if (told.status != 202) told = call("GET", target("f", "&upload=upload-1"));
    return told.status == 202;
  })) << told.body;
  const auto offset = json::parse(told.body).at("offset").to_number<size_t>();
  EXPECT_LE(offset, 150'000u);
  EXPECT_EQ(put("f", bytes.substr(offset), "&upload=upload-1",
                {{"Content-Range", "bytes " + std::to_string(offset) + "-199999/200000"}})
                .status,
            200);
  EXPECT_EQ(get("f").body, bytes);
}

TEST_P(FilePartsTest, AStopWaitsForNobody) {
  put("f", "x");
  EXPECT_EQ(put("g", "abc", "&upload=upload-1", {{"Content-Range", "bytes 0-2/*"}}).status, 202);
  EXPECT_FALSE(nothing_left(""));
  auto slot = processes->find(view.key);
  slot->close_admission();
  EXPECT_EQ(
      put("g", "d", "&upload=upload-1", {{"Content-Range", "bytes 3-3/4"}}).headers.get("X-Nodus-Reason"),
      "SlotNotRunning");
  EXPECT_TRUE(slot->end_all("ParentStopped", Seconds(5)).has_value());
  slot->reopen_admission();
  EXPECT_EQ(names(""), std::vector<std::string>{"f"});
}

INSTANTIATE_TEST_SUITE_P(Runtimes, FilePartsTest,
                         testing::Values(Runtime::kPlain, Runtime::kRunc, Runtime::kRunsc),
                         [](const auto& info) { return test::to_text(info.param); });

}  // namespace
}  // namespace nodus::executor
