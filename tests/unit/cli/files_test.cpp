// nodus cp against a small server that plays the file API, and plays it badly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "cli/commands.hpp"
#include "cli/local_files.hpp"
#include "libs/base/random.hpp"
#include "tests/unit/http/raw.hpp"

namespace nodus::cli {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using http::Request;
using http::Response;
using testing::HasSubstr;

struct Node {
  std::string type = "file", bytes{}, target{};
  int mode = 0644;
  int version = 1;
};

// The files of a Sandbox, as the API shows them.
class FakeFiles {
 public:
  Response answer(const Request& request) {
    std::lock_guard lock(mutex);
    ++requests;
    if (hook)
      if (auto other = hook(request)) return *other;
    std::string path = *request.query_value("path");
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    if (request.method == "PUT") return put(request, path);
    const auto found = nodes.find(path);
    if (request.query_value("list")) return list(path);
    if (found == nodes.end()) return error(Code::kNotFound, "NotFound");
    if (request.query_value("stat")) return http::json(200, json::serialize(show(found->second)));
    if (found->second.type != "file") return error(Code::kInvalid, "NotAFile");
    return get(request, found->second);
  }
  static Response error(Code code, const char* reason, const std::string& details = "") {
    return http::status({code, reason, "It said no.", {}, {}, details});
  }
  static std::string etag(const Node& node) { return "\"" + std::to_string(node.version) + "\""; }

  std::mutex mutex;
  std::map<std::string, Node> nodes;
  std::map<std::string, std::string> uploads;
  std::vector<std::string> extra_names;  // of "/hostile", whatever they are
  std::function<std::optional<Response>(const Request&)> hook;
  size_t whole = 1 << 20;  // more: 413 without a range
  int requests = 0;

 private:
  static json::object show(const Node& node) {
    json::object shown{{"type", node.type},
                       {"size", node.bytes.size()},
                       {"mode", std::to_string(node.mode / 64 % 8) + std::to_string(node.mode / 8 % 8) +
                                    std::to_string(node.mode % 8)},
                       {"mtime", "2023-11-14T22:13:20.500000000Z"},
                       {"etag", etag(node)}};
    if (node.type == "symlink") shown["target"] = node.target;
    return shown;
  }
  Response list(const std::string& path) {
    json::array items;
    for (const auto& [name, node] : nodes) {
      if (!name.starts_with(path + "/") || name.find('/', path.size() + 1) != name.npos) continue;
      auto shown = show(node);
      shown["name"] = name.substr(path.size() + 1);
      items.push_back(shown);
    }
    if (path == "/hostile")
      for (const auto& name : extra_names)
        items.push_back(json::object{{"name", name}, {"type", "file"}, {"size", 1}});
    return http::json(200, json::serialize(json::object{{"items", items}, {"metadata", json::object()}}));
  }
  Response get(const Request& request, const Node& node) const {
    if (const auto match = request.headers.get("If-Match"); match && *match != etag(node))
      return error(Code::kPreconditionFailed, "PreconditionFailed");
    Response response;
    response.body = node.bytes;
    if (const auto range = request.headers.get("Range")) {
      size_t from = 0, to = 0;
      sscanf(range->c_str(), "bytes=%zu-%zu", &from, &to);
      response.status = 206;
      response.body = node.bytes.substr(from, to - from + 1);
    } else if (node.bytes.size() > whole) {
      return error(Code::kTooLarge, "FileTooLarge");
    }
    std::string raw;
    const std::string hex = sha256_hex(response.body);
    for (size_t i = 0; i < hex.size(); i += 2)
      raw += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    response.headers.set("Content-Digest", "sha-256=:" + to_base64(raw) + ":");
    response.headers.set("X-Nodus-Mode", show(node)["mode"].as_string().c_str());
    return response;
  }
  Response put(const Request& request, const std::string& path) {
    Node& node = nodes[path];
    const int mode =
        static_cast<int>(std::strtol(request.query_value("mode").value_or("644").c_str(), nullptr, 8));
    const std::string type = request.query_value("type").value_or("file");
    if (type != "file") {
      node = {.type = type, .target = request.query_value("target").value_or(""), .mode = mode};
      return http::json(200, "{}");
    }
    std::string bytes = request.body;
    if (const auto id = request.query_value("upload")) {
      std::string& so_far = uploads[*id];
      unsigned long from = 0, to = 0;
      char total[32] = "";
      const std::string range = request.headers.get("Content-Range").value_or("");
      if (sscanf(range.c_str(), "bytes %lu-%lu/%31s", &from, &to, total) != 3) {
        sscanf(range.c_str(), "bytes */%31s", total);
        from = so_far.size();
      }
      if (from != so_far.size())
        return error(Code::kConflict, "UploadOffset", "{\"offset\":" + std::to_string(so_far.size()) + "}");
      so_far += request.body;
      if (std::to_string(so_far.size()) != total) return http::json(202, "{}");
      EXPECT_EQ(request.query_value("contentSHA256"), sha256_hex(so_far));
      bytes = so_far;
    }
    node = {.bytes = bytes, .mode = mode};
    return http::json(200, R"({"sha256":")" + sha256_hex(bytes) + "\"}");
  }
};

class Copy : public testing::Test {
 protected:
  Copy() : host_(options()) {
    directory_ = fs::path(testing::TempDir()) / ("nodus-cp-" + random_uuid());
    fs::create_directory(directory_);
    for (const char* method : {"GET", "PUT"})
      host_.add(method, "/apis/nodus.dev/v1/namespaces/dev/sandboxes/x/files",
                [this](const Request& request) { return files_.answer(request); });
    host_.start();
  }
  ~Copy() override { fs::remove_all(directory_); }
  static http::ServerOptions options() {
    http::ServerOptions options;
    options.limits.body_bytes = 64 << 20;
    return options;
  }
  int cp(std::vector<std::string> args) {
    args.insert(args.begin(), "cp");
    err_.str("");
    Console console{.in = in_,
                    .out = out_,
                    .err = err_,
                    .in_is_terminal = false,
                    .environment = {{"NODUS_API", host_.url("/apis/nodus.dev/v1/namespaces/dev")},
                                    {"NODUS_API_KEY", "key"}},
                    .sleep = [this](Millis time) { clock_.advance(time); },
                    .clock = &clock_};
    return cli::run(console, args);
  }
  fs::path at(const std::string& name) const { return directory_ / name; }
  void write(const std::string& name, const std::string& text) { std::ofstream(at(name)) << text; }
  std::string slurp(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(at(name)).rdbuf();
    return text.str();
  }
  mode_t mode(const std::string& name) const {
    struct stat info{};
    lstat(at(name).c_str(), &info);
    return info.st_mode & 07777;
  }

  FakeFiles files_;
  fs::path directory_;
  std::istringstream in_;
  std::ostringstream out_, err_;
  ManualClock clock_;
  http::TestServer host_;
};

TEST(LocalFiles, WhatStaysInside) {
  for (const auto& [target, depth] : std::vector<std::pair<const char*, size_t>>{
           {"a", 0}, {"a/b", 0}, {"./a", 0}, {"../a", 1}, {"../../a//b", 2}, {".", 0}, {"..", 1}})
    EXPECT_TRUE(stays_inside(target, depth)) << target;
  // "a/.." is the parent of what a leads to, and a may be a link.
  for (const auto& [target, depth] : std::vector<std::pair<const char*, size_t>>{{"", 0},
                                                                                 {"/a", 9},
                                                                                 {"..", 0},
                                                                                 {"../../a", 1},
                                                                                 {"a/..", 0},
                                                                                 {"a/../..", 5},
                                                                                 {"../a/..", 5},
                                                                                 {"./..", 0}})
    EXPECT_FALSE(stays_inside(target, depth)) << target;
  EXPECT_EQ(shown("a\x1b[2Jb\nä\xff"), "a\\x1b[2Jb\\x0aä\\xff");
  EXPECT_EQ(shown("\xe2\x80\xae"), "\\xe2\\x80\\xae");  // would turn the line around
}

TEST_F(Copy, LargeFilesGoUpByPartsThoughConnectionsBreak) {
  const std::string bytes = random_bytes((40 << 20) + 7);
  write("big", bytes);
  int calls = 0;
  files_.hook = [&](const Request& request) -> std::optional<Response> {
    if (++calls == 1) return FakeFiles::error(Code::kUnavailable, "SandboxStarting");
    if (calls == 4) {  // the part arrived in part, its answer was lost
      files_.uploads[*request.query_value("upload")] += request.body.substr(0, 5'000'000);
      return FakeFiles::error(Code::kUnavailable, "ConnectionLost");
    }
    return std::nullopt;
  };
  EXPECT_EQ(cp({at("big"), "sb/x:/w/big"}), 0) << err_.str();
  EXPECT_EQ(sha256_hex(files_.nodes["/w/big"].bytes), sha256_hex(bytes));
  EXPECT_EQ(files_.uploads.size(), 1u);
}

TEST_F(Copy, LargeFilesComeByPartsAndAreOneVersion) {
  const std::string before = random_bytes(20 << 20), after = random_bytes((33 << 20) + 1);
  files_.nodes["/w/big"] = {.bytes = before};
  int ranges = 0;
  files_.hook = [&](const Request& request) -> std::optional<Response> {
    if (!request.headers.get("Range") || ++ranges != 2) return std::nullopt;
    files_.nodes["/w/big"] = {.bytes = after, .version = 2};
    return std::nullopt;
  };
  EXPECT_EQ(cp({"sb/x:/w/big", at("big")}), 0) << err_.str();
  EXPECT_EQ(sha256_hex(slurp("big")), sha256_hex(after));
}

TEST_F(Copy, DamagedBytesAreNotKept) {
  files_.nodes["/f"] = {.bytes = "right"};
  int calls = 0, damaged = 1;
  files_.hook = [&](const Request&) -> std::optional<Response> {
    if (++calls > damaged) return std::nullopt;
    Response response;
    response.body = "wrong";
    response.headers.set("Content-Digest", "sha-256=:AAAA:");
    return response;
  };
  EXPECT_EQ(cp({"sb/x:/f", at("f")}), 0) << err_.str();
  EXPECT_EQ(slurp("f"), "right");
  calls = 0, damaged = 100;
  EXPECT_NE(cp({"sb/x:/f", at("f")}), 0);
  EXPECT_EQ(slurp("f"), "right");
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 1);
  files_.hook = [&](const Request&) { return http::json(200, R"({"sha256":"00"})"); };
  EXPECT_NE(cp({at("f"), "sb/x:/f"}), 0);  // written, but not what was sent
}

TEST_F(Copy, TreesGoInAndComeBack) {
  fs::create_directories(at("tree/sub/empty"));
  write("tree/run", "#!/bin/sh\n");
  chmod(at("tree/run").c_str(), 0755);
  write("tree/sub/f", "deep");
  symlink("../run", at("tree/sub/link").c_str());
  symlink("/etc/passwd", at("tree/out").c_str());
  EXPECT_EQ(cp({at("tree"), "sb/x:/w"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("give -r"));
  EXPECT_EQ(cp({"-r", at("tree"), "sb/x:/w"}), 0) << err_.str();
  EXPECT_EQ(files_.nodes["/w/run"].mode, 0755);
  EXPECT_EQ(files_.nodes["/w/sub/empty"].type, "directory");
  EXPECT_EQ(files_.nodes["/w/out"].target, "/etc/passwd");
  EXPECT_EQ(cp({"-r", at("tree"), "sb/x:/w"}), 0);  // it is there now: into it
  EXPECT_EQ(files_.nodes["/w/tree/sub/f"].bytes, "deep");
  EXPECT_EQ(cp({"sb/x:/w", at("back")}), 2);
  // The link that leads out is named and left out; the rest is there.
  EXPECT_EQ(cp({"-r", "sb/x:/w/tree", at("back")}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("out was not copied: it is a link that leads out"));
  EXPECT_EQ(slurp("back/sub/f"), "deep");
  EXPECT_EQ(mode("back/run"), 0755u & ~022u);
  EXPECT_EQ(fs::read_symlink(at("back/sub/link")), "../run");
  EXPECT_TRUE(fs::is_directory(at("back/sub/empty")));
  EXPECT_FALSE(fs::exists(fs::symlink_status(at("back/out"))));
  files_.nodes.erase("/w/tree/out");
  EXPECT_EQ(cp({"-r", "sb/x:/w/tree", at("back")}), 0) << err_.str();
  EXPECT_EQ(slurp("back/tree/sub/f"), "deep");
  EXPECT_EQ(cp({"-rp", "sb/x:/w/tree/.", at("kept")}), 0) << err_.str();
  struct stat info{};
  ASSERT_EQ(stat(at("kept/run").c_str(), &info), 0);
  EXPECT_EQ(info.st_mtim.tv_sec, 1700000000);
}

// Whatever the Sandbox says, nothing is written beside the target.
TEST_F(Copy, AHostileSandboxReachesNothing) {
  fs::create_directories(at("outside"));
  fs::create_directories(at("target/hostile"));
  symlink(at("outside").c_str(), at("target/hostile/dir").c_str());  // there already
  symlink(at("outside/f").c_str(), at("target/hostile/file").c_str());
  files_.nodes["/hostile"] = {.type = "directory"};
  files_.nodes["/hostile/dir"] = {.type = "directory"};
  files_.nodes["/hostile/dir/f"] = {.bytes = "evil"};
  files_.nodes["/hostile/file"] = {.bytes = "evil"};
  files_.nodes["/hostile/link"] = {.type = "symlink", .target = "../../outside"};
  files_.nodes["/hostile/abs"] = {.type = "symlink", .target = at("outside")};
  files_.nodes["/hostile/pipe"] = {.type = "fifo"};
  files_.nodes["/hostile/good"] = {.bytes = "good"};
  files_.extra_names = {
      "..", ".", "", "../outside/evil", "/tmp/nodus-evil", "a/b", std::string("nul\0x", 5), "esc\x1b[2J"};
  EXPECT_EQ(cp({"-r", "sb/x:/hostile", at("target")}), 1);
  EXPECT_TRUE(fs::is_empty(at("outside")));
  EXPECT_EQ(slurp("target/hostile/good"), "good");
  EXPECT_EQ(slurp("target/hostile/file"), "evil");  // instead of the link, not through it
  EXPECT_FALSE(fs::exists(fs::symlink_status(at("target/hostile/link"))));
  EXPECT_FALSE(fs::exists("/tmp/nodus-evil"));
  EXPECT_EQ(err_.str().find('\x1b'), std::string::npos);
  EXPECT_THAT(err_.str(), HasSubstr("links are not followed"));
}

TEST_F(Copy, ModesAndNamesAsCpDoes) {
  write("f", "x");
  chmod(at("f").c_str(), 0750);
  EXPECT_EQ(cp({at("f"), "sb/x:/d/f"}), 0);
  EXPECT_EQ(files_.nodes["/d/f"].mode, 0750);
  files_.nodes["/d"] = {.type = "directory"};
  files_.hook = [&](const Request& request) -> std::optional<Response> {
    if (request.method == "PUT" && request.query_value("path") == "/d")
      return FakeFiles::error(Code::kInvalid, "NotAFile");
    return std::nullopt;
  };
  files_.nodes.erase("/d/f");
  EXPECT_EQ(cp({at("f"), "sb/x:/d"}), 0) << err_.str();  // a directory: into it
  EXPECT_EQ(files_.nodes["/d/f"].bytes, "x");
  write("old", "old");
  chmod(at("old").c_str(), 0600);
  symlink("old", at("link").c_str());
  EXPECT_EQ(cp({"sb/x:/d/f", at("link")}), 0) << err_.str();
  EXPECT_EQ(slurp("old"), "x");  // through a link that was typed
  EXPECT_EQ(mode("old"), 0600u);
  EXPECT_EQ(cp({"sb/x:/d/f", "/dev/null"}), 0) << err_.str();
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(cp({"sb/x:/d/f", at("none/f")}), 2);
}

}  // namespace
}  // namespace nodus::cli
