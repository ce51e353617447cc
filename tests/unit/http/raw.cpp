#include "tests/unit/http/raw.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "libs/base/check.hpp"

namespace nodus::http {

namespace {
constexpr int kPatienceMs = 10'000;
}

Raw::Raw(int port) {
  fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "errno {}", errno);
}

Raw::~Raw() {
  close();
}

void Raw::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool Raw::send(std::string_view bytes) {
  while (!bytes.empty()) {
    pollfd ready{fd_, POLLOUT, 0};
    if (poll(&ready, 1, kPatienceMs) <= 0) return false;
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

void Raw::end_sending() {
  shutdown(fd_, SHUT_WR);
}

bool Raw::fill() {
  pollfd ready{fd_, POLLIN, 0};
  if (poll(&ready, 1, kPatienceMs) <= 0) return false;
  char bytes[65536];
  const ssize_t got = recv(fd_, bytes, sizeof bytes, 0);
  if (got < 0) reset_ = true;
  if (got <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(got));
  return true;
}

std::string Raw::read_some() {
  if (buffer_.empty()) fill();
  return std::exchange(buffer_, "");
}

std::string Raw::read_all() {
  while (fill()) continue;
  return std::exchange(buffer_, "");
}

bool Raw::ends() {
  return buffer_.empty() && !fill();
}

RawAnswer Raw::read_answer(bool head_only) {
  RawAnswer answer;
  size_t end = 0;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos)
    if (!fill()) return answer;
  std::string_view head = std::string_view(buffer_).substr(0, end + 2);
  CHECK(head.starts_with("HTTP/1.1 "), "{}", head);
  answer.status = std::stoi(std::string(head.substr(9, 3)));
  head.remove_prefix(head.find("\r\n") + 2);
  while (!head.empty()) {
    const std::string_view line = head.substr(0, head.find("\r\n"));
    const size_t colon = line.find(": ");
    CHECK(colon != std::string_view::npos, "{}", line);
    std::string name(line.substr(0, colon));
    for (char& c : name) c = static_cast<char>(tolower(c));
    answer.headers[name] = line.substr(colon + 2);
    head.remove_prefix(line.size() + 2);
  }
  buffer_.erase(0, end + 4);
  if (head_only || answer.status < 200 || answer.status == 204) {
    answer.whole = true;
  } else if (const auto length = answer.headers.find("content-length"); length != answer.headers.end()) {
    const size_t size = std::stoul(length->second);
    while (buffer_.size() < size && fill()) continue;
    answer.body = buffer_.substr(0, size);
    answer.whole = answer.body.size() == size;
    buffer_.erase(0, size);
  } else if (answer.headers.contains("transfer-encoding")) {
    while (true) {
      size_t line = 0;
      while ((line = buffer_.find("\r\n")) == std::string::npos)
        if (!fill()) return answer;
      const size_t size = std::stoul(buffer_.substr(0, line), nullptr, 16);
      while (buffer_.size() < line + 2 + size + 2)
        if (!fill()) return answer;
      answer.body += buffer_.substr(line + 2, size);
      buffer_.erase(0, line + 2 + size + 2);
      if (size > 0) continue;
      answer.whole = true;
      return answer;
    }
  }
  return answer;
}

TestServer::TestServer(ServerOptions options) : server(std::move(options)) {}

void TestServer::get(const std::string& pattern, Handler handler) {
  add("GET", pattern, std::move(handler));
}

void TestServer::add(const std::string& method, const std::string& pattern, Handler handler) {
  Route route;
  route.method = method;
  route.pattern = route.name = pattern;
  route.handler = std::move(handler);
  server.route(std::move(route));
}

void TestServer::stream(const std::string& method, const std::string& pattern, StreamHandler handler) {
  Route route;
  route.method = method;
  route.pattern = route.name = pattern;
  route.stream = std::move(handler);
  server.route(std::move(route));
}

int TestServer::start() {
  const auto started = server.start();
  CHECK(started.has_value(), "{}", started.error().message);
  return server.port();
}

std::string TestServer::url(const std::string& target) const {
  return fmt::format("http://127.0.0.1:{}{}", server.port(), target);
}

bool eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace nodus::http
