// A Sandbox with the real helper behind the data path, and what tests of files ask of it.
#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <thread>

#include "libs/base/random.hpp"
#include "libs/http/client.hpp"
#include "libs/http/target.hpp"
#include "services/executor/process/routes.hpp"
#include "tests/integration/executor_process/sandbox.hpp"

namespace nodus::executor {
namespace json = boost::json;
using test::eventually;
using test::Runtime;
using test::Sandbox;

class FilesTest : public testing::TestWithParam<Runtime> {
 protected:
  using Fields = std::vector<std::pair<std::string, std::string>>;
  void SetUp() override {
    sandbox = std::make_unique<Sandbox>(GetParam());
    view.key = {SandboxUid(random_uuid()), 7};
    view.directory = sandbox->directory() / "slot";
    view.run_socket = sandbox->socket();
    view.uid = view.gid = test::kUser;
    view.env = {"PATH=/bin:/usr/bin", "HOME=" + sandbox->inside()};
    view.working_dir = sandbox->inside();
    waiters = std::make_unique<http::Waiters>();
    outbox = std::make_unique<ReportOutbox>(OutboxOptions{sandbox->directory() / "outbox", "m1"},
                                            [](const std::string&) { return Result<void>(); });
    processes = std::make_unique<Processes>(ProcessLimits{}, *outbox,
                                            [this](const std::string& uid) { waiters->notify(uid); });
    ASSERT_TRUE(processes->open(view, Seconds(20)).has_value());
    server = std::make_unique<http::Server>(http::ServerOptions{});
    DataPathOptions options;
    options.token = "token";
    options.files.upload_idle = Millis(3'000);
    options.files.closing_grace = Millis(100);
    data_path_routes(*server, *processes, *waiters, options);
    ASSERT_TRUE(server->start().has_value());
  }
  void TearDown() override {
    server->stop(Millis(500));
    server.reset();
    processes.reset();
  }
  std::string base() const { return "/v1/slots/" + view.key.sandbox.str() + "/epochs/7/"; }
  std::string target(const std::string& path, const std::string& more = "") const {
    const std::string whole = path.starts_with("/") ? path : sandbox->inside() + "/" + path;
    return base() + "files?path=" + http::escape(whole, true) + more;
  }
  http::Response call(std::string method, const std::string& to, std::string body = "",
                      const Fields& fields = {}) {
    http::Client client;
    http::ClientRequest request;
    request.method = std::move(method);
    request.url = "http://127.0.0.1:" + std::to_string(server->port()) + to;
    request.body = std::move(body);
    request.headers.set("Authorization", "Bearer token");
    for (const auto& [name, value] : fields) request.headers.set(name, value);
    request.response_limit = 200u << 20;
    auto response = client.call(request);
    EXPECT_TRUE(response.has_value()) << request.url << response.error().message;
    return response ? *response : http::Response{0, {}, {}};
  }
  http::Response get(const std::string& path, const Fields& fields = {}) {
    return call("GET", target(path), "", fields);
  }
  http::Response put(const std::string& path, std::string body, const std::string& more = "",
                     const Fields& fields = {}) {
    return call("PUT", target(path, more), std::move(body), fields);
  }
  static std::string reason(const http::Response& response) { return http::parse_status(response).reason; }
  std::string sh(const std::string& script) {
    const auto body = json::serialize(json::object{
        {"uid", random_uuid()}, {"name", "sb-x-1"}, {"command", json::array{"sh", "-c", script}}});
    std::string out;
    const std::string answer = call("POST", base() + "processes", body).body;
    for (size_t at = 0; at < answer.size();) {
      const size_t end = answer.find('\n', at);
      const auto frame = json::parse(answer.substr(at, end - at)).as_object();
      at = end + 1;
      std::string data;
      if (frame.contains("data") && from_base64(std::string(frame.at("data").as_string()), data)) out += data;
    }
    return out;
  }
  json::array list(const std::string& path, const std::string& more = "") {
    const auto answer = call("GET", target(path, "&list=true" + more));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.status == 200 ? json::parse(answer.body).at("items").as_array() : json::array{};
  }
  std::vector<std::string> names(const std::string& path) {
    std::vector<std::string> found;
    for (const auto& entry : list(path)) found.emplace_back(entry.at("name").as_string());
    return found;
  }
  bool nothing_left(const std::string& path) {
    for (const auto& name : names(path))
      if (name.starts_with(".nodus")) return false;
    return true;
  }

  std::unique_ptr<Sandbox> sandbox;
  SlotView view;
  std::unique_ptr<http::Waiters> waiters;
  std::unique_ptr<ReportOutbox> outbox;
  std::unique_ptr<Processes> processes;
  std::unique_ptr<http::Server> server;
};

}  // namespace nodus::executor
