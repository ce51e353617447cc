// Finds the route of a request. Filled before the server starts, then read by all threads.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libs/http/server.hpp"

namespace nodus::http {

class Router {
 public:
  struct Match {
    const Route* route = nullptr;
    std::map<std::string, std::string> params;
    std::string allow;  // with no route: methods of the path, for 405; empty: no such path
  };

  void add(Route route);
  // A literal segment wins over a parameter. HEAD is answered by the GET route.
  Match find(const std::string& method, const std::vector<std::string>& segments) const;
  const std::vector<Route>& routes() const { return routes_; }

 private:
  std::vector<Route> routes_;
  std::vector<std::vector<std::string>> patterns_;  // segments of each route
};

}  // namespace nodus::http
