// Files of a Sandbox over HTTP, with the real helper: every promise, and what hostile files do.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "tests/integration/executor_process/file_fixture.hpp"

namespace nodus::executor {
namespace {

TEST_P(FilesTest, RangesAndConditions) {
  put("f", "0123456789");
  const auto whole = get("f");
  EXPECT_EQ(whole.headers.get("Content-Length"), "10");
  EXPECT_EQ(whole.headers.get("Accept-Ranges"), "bytes");
  EXPECT_EQ(whole.headers.get("X-Nodus-Mode"), "0644");
  const std::string etag = whole.headers.get("ETag").value_or(""),
                    date = whole.headers.get("Last-Modified").value_or("");
  const std::pair<const char*, std::pair<int, const char*>> cases[] = {
      {"bytes=0-3", {206, "0123"}},
      {"bytes=4-", {206, "456789"}},
      {"bytes=-3", {206, "789"}},
      {"bytes=-30", {206, "0123456789"}},
      {"bytes=9-9", {206, "9"}},
      {"bytes=5-1000", {206, "56789"}},
      {"BYTES=0-0", {206, "0"}},
      {"bytes=3-2", {200, "0123456789"}},
      {"bytes=0-1,3-4", {200, "0123456789"}},
      {"lines=0-1", {200, "0123456789"}},
      {"bytes=a-b", {200, "0123456789"}},
      {"bytes=", {200, "0123456789"}},
      {"bytes=0-99999999999999999999", {206, "0123456789"}}};
  for (const auto& [range, expected] : cases) {
    const auto answer = get("f", {{"Range", range}});
    EXPECT_EQ(answer.status, expected.first) << range;
    EXPECT_EQ(answer.body, expected.second) << range;
  }
  EXPECT_EQ(get("f", {{"Range", "bytes=2-4"}}).headers.get("Content-Range"), "bytes 2-4/10");
  for (const char* range : {"bytes=10-", "bytes=99999999999999999999-", "bytes=-0"}) {
    const auto refused = get("f", {{"Range", range}});
    EXPECT_EQ(refused.status, 416) << range;
    EXPECT_EQ(reason(refused), "RangeNotSatisfiable");
    EXPECT_EQ(refused.headers.get("Content-Range"), "bytes */10");
  }
  EXPECT_EQ(get("f", {{"If-None-Match", etag}}).status, 304);
  EXPECT_EQ(get("f", {{"If-None-Match", "\"x\", W/" + etag}}).status, 304);
  EXPECT_EQ(get("f", {{"If-None-Match", "\"x\""}}).status, 200);
  EXPECT_EQ(get("f", {{"If-Modified-Since", date}}).status, 304);
  EXPECT_EQ(get("f", {{"If-Match", etag}}).status, 200);
  EXPECT_EQ(get("f", {{"If-Match", "\"x\""}}).status, 412);
  EXPECT_EQ(get("f", {{"If-Range", etag}, {"Range", "bytes=0-0"}}).status, 206);
  EXPECT_EQ(get("f", {{"If-Range", "\"x\""}, {"Range", "bytes=0-0"}}).body, "0123456789");
  const auto digest = get("f", {{"Want-Content-Digest", "sha-256=1"}, {"Range", "bytes=0-0"}});
  EXPECT_EQ(digest.headers.get("Content-Digest"), "sha-256=:X+zrZv/IbzjZUnhsbWlsecLbwjndTpG0ZynXOif7V+k=:");
  const auto head = call("HEAD", target("f"));
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.get("Content-Length"), "10");
  EXPECT_EQ(head.body, "");
  put("f", "0123456789");  // the same bytes, another file
  EXPECT_EQ(get("f", {{"If-Match", etag}}).status, 412);
  put("empty", "");
  EXPECT_EQ(get("empty", {{"Range", "bytes=-5"}}).status, 200);
  EXPECT_EQ(get("empty", {{"Range", "bytes=0-"}}).status, 416);
}

TEST_P(FilesTest, GiantsAnswerAtOnce) {
  sh("dd if=/dev/zero of=giant bs=1 count=1 seek=1099511627775");
  EXPECT_EQ(reason(get("giant")), "FileTooLarge");
  EXPECT_EQ(reason(get("giant", {{"Range", "bytes=0-"}})), "FileTooLarge");
  EXPECT_EQ(call("HEAD", target("giant")).headers.get("Content-Length"), "1099511627776");
  const auto part = get("giant", {{"Range", "bytes=1099511627770-"}});
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.body, std::string(6, '\0'));
  EXPECT_EQ(put("giant", "x", "&expectedSHA256=" + sha256_hex("y")).status, 413);
  EXPECT_EQ(put("giant", "x", "&expectedSHA256=" + sha256_hex("")).status, 412);
  EXPECT_EQ(put("giant", "small").status, 200);
  EXPECT_EQ(get("giant").body, "small");
}

TEST_P(FilesTest, WhatIsNoFileAnswersAtOnce) {
  // A GET must not wake who writes to the pipe.
  sh("mkfifo pipe; (echo through > pipe; echo woken > woken) > /dev/null 2>&1 & mkdir dir; ln -s pipe link; "
     "ln -s gone dangling");
  for (const char* name : {"pipe", "link", "dir"}) {
    EXPECT_EQ(reason(get(name)), "NotAFile") << name;
    EXPECT_EQ(reason(put(name, "x")), "NotAFile") << name;
    EXPECT_EQ(reason(put(name, "x", "&expectedSHA256=" + sha256_hex(""))), "NotAFile") << name;
  }
  EXPECT_EQ(get("woken").status, 404);
  EXPECT_EQ(sh("cat pipe"), "through\n");
  EXPECT_EQ(json::parse(call("GET", target("pipe", "&stat=true")).body).at("type"), "fifo");
  EXPECT_EQ(call("DELETE", target("pipe")).status, 200);
  EXPECT_EQ(get("dangling").status, 404);
  EXPECT_EQ(put("dangling", "made").status, 200);  // where it points to
  EXPECT_EQ(get("gone").body, "made");
  EXPECT_EQ(get("gone/below").status, 404);
  EXPECT_EQ(get("gone/").status, 422);
  EXPECT_EQ(reason(put("gone/below", "x")), "NotADirectory");
  EXPECT_EQ(reason(put("new/", "x")), "NotAFile");
  EXPECT_EQ(reason(call("DELETE", target("dangling/"))), "NotADirectory");
  EXPECT_EQ(call("DELETE", target("dangling")).status, 200);  // the link, not the file
  EXPECT_EQ(get("gone").body, "made");
  sh("mkdir full; echo x > full/f");
  EXPECT_EQ(reason(call("DELETE", target("full"))), "DirectoryNotEmpty");
  EXPECT_EQ(call("DELETE", target("/")).status, 403);
}

TEST_P(FilesTest, OfAHundredWhoCreateOneDoes) {
  for (int round = 0; round < 2; ++round) {
    std::atomic<int> won = 0, lost = 0;
    std::vector<std::thread> threads;
    const std::string expected = sha256_hex(round ? "mine" : "");
    for (int i = 0; i < 100; ++i)
      threads.emplace_back([&] {
        const auto answer = put("a/new/lock", round ? "other" : "mine", "&expectedSHA256=" + expected);
        (answer.status == 200 ? won : lost)++;
        if (answer.status != 200) EXPECT_EQ(reason(answer), "SHA256Mismatch");
      });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(won, 1);
    EXPECT_EQ(lost, 99);
  }
  EXPECT_EQ(get("a/new/lock").body, "other");
  EXPECT_TRUE(nothing_left("a/new"));
}

// Many add to one number, each from what it has read: no addition is lost.
TEST_P(FilesTest, ReadChangeWriteLosesNothing) {
  put("n", "0");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int done = 0; done < 5;) {
        const auto now = get("n");
        done += put("n", std::to_string(std::stoi(now.body) + 1), "&expectedSHA256=" + sha256_hex(now.body))
                    .status == 200;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(get("n").body, "40");
}

TEST_P(FilesTest, AReaderSeesOneContentOrTheOther) {
  const std::string a(300'000, 'a'), b(200'000, 'b');
  put("f", a);
  std::atomic<bool> over = false;
  std::thread writer([&] {
    for (int i = 0; i < 40; ++i) put("f", i % 2 ? a : b);
    over = true;
  });
  while (!over) {
    const auto seen = get("f").body;
    EXPECT_TRUE(seen == a || seen == b);
  }
  writer.join();
}

TEST_P(FilesTest, AnyNameIsFine) {
  const std::string deep = [] {
    std::string path;
    for (int i = 0; i < 900; ++i) path += "d/";
    return path;
  }();
  const std::vector<std::string> odd = {
      "\xff\xfe", "a\nb", "tab\t", std::string(255, 'n'), "\xc3\xa4", " ", "%41", "a+b&c=d", "..."};
  for (const auto& name : odd) {
    EXPECT_EQ(put("odd/" + name, name).status, 200) << name;
    EXPECT_EQ(get("odd/" + name).body, name);
  }
  EXPECT_EQ(put(deep + "f", "deep").status, 200);
  EXPECT_EQ(get(deep + "f").body, "deep");
  auto sorted = odd;
  std::ranges::sort(sorted);
  std::vector<std::string> listed;
  std::string more;
  do {  // page by page
    const auto page = json::parse(call("GET", target("odd", "&list=true&limit=2" + more)).body).as_object();
    for (const auto& entry : page.at("items").as_array()) {
      std::string name(entry.at("name").as_string());
      if (const auto* whole = entry.as_object().if_contains("nameBase64"))
        EXPECT_TRUE(from_base64(std::string(whole->as_string()), name));
      listed.push_back(name);
      EXPECT_EQ(entry.at("size").to_number<size_t>(), name.size());
      EXPECT_EQ(entry.at("mode"), "0644");
    }
    const auto* next = page.at("metadata").as_object().if_contains("continue");
    more = next ? "&continue=" + std::string(next->as_string()) : "";
    EXPECT_LE(listed.size(), sorted.size());
  } while (!more.empty() && listed.size() < 20);
  EXPECT_EQ(listed, sorted);
  EXPECT_EQ(reason(put(std::string(256, 'n'), "x")), "PathInvalid");
  EXPECT_EQ(reason(get("/" + std::string(4095, 'n'))), "Invalid");
  EXPECT_EQ(reason(call("GET", target("odd/ ", "&list=true"))), "NotADirectory");
  sh("ln -s odd link");
  const auto link = json::parse(call("GET", target("link", "&stat=true")).body).as_object();
  EXPECT_EQ(link.at("type"), "symlink");
  EXPECT_EQ(link.at("target"), "odd");
  EXPECT_EQ(json::parse(call("GET", target("link", "&stat=true&follow=true")).body).at("type"), "directory");
}

TEST_P(FilesTest, ModesTimesLinksAndDirectories) {
  EXPECT_EQ(put("run", "x", "&mode=0755&mtime=1700000000.5").status, 200);
  auto info = json::parse(call("GET", target("run", "&stat=true")).body).as_object();
  EXPECT_EQ(info.at("mode"), "0755");
  EXPECT_EQ(info.at("mtime"), "2023-11-14T22:13:20.500000000Z");
  put("run", "y", "&mode=0600");
  EXPECT_EQ(get("run").headers.get("X-Nodus-Mode"), "0755");  // what is replaced keeps its mode
  put("run", "y", "&setMode=0600");
  EXPECT_EQ(get("run").headers.get("X-Nodus-Mode"), "0600");
  EXPECT_EQ(call("PUT", target("d/e", "&type=directory&mode=0700")).status, 200);
  EXPECT_EQ(call("PUT", target("d/e", "&type=directory")).status, 200);
  EXPECT_EQ(json::parse(call("GET", target("d/e", "&stat=true")).body).at("mode"), "0700");
  EXPECT_EQ(reason(call("PUT", target("run", "&type=directory"))), "NotADirectory");
  EXPECT_EQ(call("PUT", target("d/l", "&type=symlink&target=..%2Frun")).status, 200);
  EXPECT_EQ(call("PUT", target("d/l", "&type=symlink&target=e")).status, 200);
  EXPECT_EQ(json::parse(call("GET", target("d/l", "&stat=true")).body).at("target"), "e");
  sh("touch -d '2400-01-01 00:00:00' late; touch -d '1900-01-01 00:00:00' early");
  for (const char* name : {"late", "early"}) {
    EXPECT_EQ(call("GET", target(name, "&stat=true")).status, 200) << name;
    EXPECT_EQ(get(name).status, 200) << name;
  }
  EXPECT_EQ(put("/not-for-you", "x").status, 403);
  EXPECT_EQ(call("PUT", target("/proc/x", "&type=directory")).status, 403);
  EXPECT_EQ(call("GET", target("/proc", "&list=true")).status, 403);
}

TEST_P(FilesTest, ParametersAreRead) {
  for (const char* more :
       {"&expectedSha256=x", "&path=/x", "&mode=9", "&mode=07777", "&setMode=0644&mode=0644", "&mtime=-1",
        "&type=pipe", "&target=x", "&upload=x", "&contentSHA256=0", "&list=true"})
    EXPECT_EQ(put("f", "x", more).status, 422) << more;
  EXPECT_EQ(get("f").status, 404);
  EXPECT_EQ(put("f", "x", "", {{"Content-Range", "bytes 0-0/2"}}).status, 400);
  EXPECT_EQ(put("f", "x", "&contentSHA256=" + sha256_hex("y")).status, 422);
  EXPECT_EQ(put("f", "x", "", {{"If-Match", "*"}}).status, 412);
  EXPECT_EQ(get("f").status, 404);
  EXPECT_EQ(put("f", "x", "", {{"If-None-Match", "*"}}).status, 200);
  EXPECT_EQ(put("f", "x", "", {{"If-None-Match", "*"}}).status, 412);
  EXPECT_TRUE(nothing_left(""));
}

TEST_P(FilesTest, ARepeatIsTheSameWrite) {
  const Fields key = {{"Idempotency-Key", "k1"}};
  const std::string create = "&expectedSHA256=" + sha256_hex("");
  const auto first = put("f", "mine", create, key);
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(put("f", "mine", create, key).body, first.body);  // its answer was lost
  EXPECT_EQ(put("f", "mine", create).status, 412);            // somebody else
  EXPECT_EQ(put("f", "other", create, key).status, 422);
  EXPECT_EQ(put("f", "mine", create, {{"Idempotency-Key", std::string(129, 'k')}}).status, 400);
  const Fields removal = {{"Idempotency-Key", "k2"}};
  EXPECT_EQ(call("DELETE", target("f"), "", removal).status, 200);
  EXPECT_EQ(call("DELETE", target("f"), "", removal).status, 200);
  EXPECT_EQ(call("DELETE", target("f")).status, 404);
}

TEST_P(FilesTest, NeedNothingOfTheImage) {
  if (GetParam() == Runtime::kPlain) return;  // there the image is the machine
  sh("echo warm > f");
  std::filesystem::remove_all(sandbox->root() / "bin");
  EXPECT_EQ(put("a/b", "bytes").status, 200);
  EXPECT_EQ(get("a/b").body, "bytes");
  EXPECT_EQ(names(""), (std::vector<std::string>{"a", "f"}));
  EXPECT_EQ(call("DELETE", target("a/b")).status, 200);
}

INSTANTIATE_TEST_SUITE_P(Runtimes, FilesTest,
                         testing::Values(Runtime::kPlain, Runtime::kRunc, Runtime::kRunsc),
                         [](const auto& info) { return test::to_text(info.param); });

}  // namespace
}  // namespace nodus::executor
