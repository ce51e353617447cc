// A small server that plays the API, and runs of the whole CLI against it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

#include "cli/commands.hpp"
#include "libs/base/random.hpp"
#include "tests/unit/http/raw.hpp"

namespace nodus::cli {
namespace json = boost::json;
using http::Exchange;
using http::Request;
using http::Response;
template <class T = void>
using Task = boost::asio::awaitable<T>;

// Standard output whose reader goes away after some lines, as `head` does.
class Output : public std::stringbuf {
 public:
  int lines_left = 1'000'000;

 protected:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    if (lines_left <= 0) return 0;
    lines_left -= static_cast<int>(std::count(text, text + size, '\n'));
    return std::stringbuf::xsputn(text, size);
  }
};

inline const std::string kBase = "/apis/nodus.dev/v1/namespaces/dev";

class FakeApi : public testing::Test {
 protected:
  FakeApi() {
    directory_ = std::filesystem::path(testing::TempDir()) / ("nodus-cli-" + random_uuid());
    std::filesystem::create_directory(directory_);
  }
  ~FakeApi() override { std::filesystem::remove_all(directory_); }

  void on(const std::string& method, const std::string& path, http::Handler handler) {
    host_.add(method, kBase + path, [this, handler = std::move(handler)](const Request& request) {
      std::lock_guard lock(mutex_);
      seen_.push_back(request);
      return handler(request);
    });
  }
  int run(const std::vector<std::string>& args) {
    if (host_.server.port() == 0) host_.start();
    in_.clear();
    output_.str("");
    output_.lines_left = lines_;
    err_.str("");
    std::ostream shown(&output_);
    Console console{.in = in_,
                    .out = shown,
                    .err = err_,
                    .in_fd = in_fd_,
                    .environment = {{"NODUS_API", host_.url(kBase)},
                                    {"NODUS_API_KEY", "secret-key"},
                                    {"COMP_LINE", completing_}},
                    .sleep =
                        [this](Millis time) {
                          clock_.advance(time);
                          ++slept_;
                        },
                    .clock = &clock_};
    return cli::run(console, args);
  }
  void note(const Request& request) {
    std::lock_guard lock(mutex_);
    seen_.push_back(request);
  }
  void limit_output(int lines) { lines_ = lines; }
  static Task<> pause(Millis time) {
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, time);
    co_await timer.async_wait(boost::asio::use_awaitable);
  }
  std::string out() const { return output_.str(); }
  std::string err() const { return err_.str(); }
  std::string file(const std::string& name, const std::string& text) {
    const auto path = directory_ / name;
    std::ofstream(path) << text;
    return path.string();
  }
  static std::string slurp(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  static Response sandbox(int status, const std::string& phase, const std::string& uid = "u1") {
    return http::json(
        status,
        R"({"kind":"Sandbox","metadata":{"name":"hello","uid":")" + uid +
            R"(","creationTimestamp":"2023-11-14T22:01:20Z"},"spec":{"resources":{"cpu":"1","memory":"2Gi"}},)" +
            R"("status":{"phase":")" + phase +
            R"(","activity":"Idle","cost":"0.0042","reason":"ImagePullFailed"}})");
  }
  static Response error(Code code, const char* reason, std::optional<int> after = {}) {
    return http::status({code,
                         reason,
                         "It said no.",
                         {{"spec.resources.cpu", "FieldValueInvalid", "must be 0.25 to 64"}},
                         after,
                         ""});
  }
  std::mutex mutex_;
  std::vector<Request> seen_;
  std::filesystem::path directory_;
  std::istringstream in_;
  Output output_;
  std::ostringstream err_;
  std::string completing_;
  int lines_ = 1'000'000;  // of output that are read
  ManualClock clock_;
  int slept_ = 0;
  int in_fd_ = -1;  // standard input, for what streams it
  http::TestServer host_;
};

}  // namespace nodus::cli
