// What a request and an answer are, without a line of Asio.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libs/base/error.hpp"

namespace nodus::http {

// Field names are compared without case. Values have no CR, LF or NUL.
class Headers {
 public:
  void set(std::string_view name, std::string_view value);
  void add(std::string_view name, std::string_view value);
  void erase(std::string_view name);
  std::optional<std::string> get(std::string_view name) const;  // the first
  const std::vector<std::pair<std::string, std::string>>& all() const { return fields_; }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

struct Request {
  std::string method;                 // upper case
  std::string target;                 // as sent: path and query
  std::vector<std::string> segments;  // decoded path segments; never "", "." or ".."
  std::multimap<std::string, std::string> query;
  std::map<std::string, std::string> params;  // of the route, e.g. {name}
  Headers headers;                            // of the header block only; trailers are dropped
  std::string body;                           // buffered routes only
  std::string peer;                           // address of the client
  std::optional<std::string> query_value(const std::string& name) const;
};

struct Response {
  int status = 200;
  Headers headers;
  std::string body;
};

Response json(int status, std::string body);
// A Kubernetes-style Status object: kind, apiVersion, status, reason, message, code, details.causes;
// Retry-After.
Response status(const Error& error);

}  // namespace nodus::http
