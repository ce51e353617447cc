// A client that sends exactly the bytes it is given, and reads answers strictly.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "libs/http/server.hpp"

namespace nodus::http {

struct RawAnswer {
  int status = 0;                              // 0: the connection ended instead
  std::map<std::string, std::string> headers;  // lower-case names
  std::string body;
  bool whole = false;
};

class Raw {
 public:
  explicit Raw(int port);
  ~Raw();
  Raw(const Raw&) = delete;
  bool send(std::string_view bytes);
  void end_sending();
  RawAnswer read_answer(bool head_only = false);
  std::string read_some();  // "" when the connection ended, or after 10 s
  bool ends();              // true: the server closes without another byte
  std::string read_all();   // until the end
  bool reset() const { return reset_; }
  void close();

 private:
  bool fill();
  int fd_ = -1;
  bool reset_ = false;
  std::string buffer_;
};

// A server on a free port that starts when its routes are there and stops at the end of the test.
struct TestServer {
  explicit TestServer(ServerOptions options = {});
  void get(const std::string& pattern, Handler handler);
  void add(const std::string& method, const std::string& pattern, Handler handler);
  void stream(const std::string& method, const std::string& pattern, StreamHandler handler);
  int start();
  std::string url(const std::string& target) const;
  Server server;
};

bool eventually(const std::function<bool()>& condition);  // within 10 s

}  // namespace nodus::http
