#include "libs/http/router.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "libs/base/check.hpp"

namespace nodus::http {

namespace {

bool is_parameter(const std::string& segment) {
  return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}

std::vector<std::string> split(std::string_view pattern) {
  std::vector<std::string> segments;
  CHECK(pattern.starts_with('/'), "{}", pattern);
  pattern.remove_prefix(1);
  while (!pattern.empty()) {
    const size_t slash = pattern.find('/');
    segments.emplace_back(pattern.substr(0, slash));
    pattern = slash == std::string_view::npos ? "" : pattern.substr(slash + 1);
  }
  return segments;
}

bool matches(const std::vector<std::string>& pattern, const std::vector<std::string>& segments) {
  if (pattern.size() != segments.size()) return false;
  for (size_t i = 0; i < pattern.size(); ++i)
    if (!is_parameter(pattern[i]) && pattern[i] != segments[i]) return false;
  return true;
}

// True: `a` is more literal than `b`, judged from the left.
bool more_literal(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (is_parameter(a[i]) != is_parameter(b[i])) return is_parameter(b[i]);
  return false;
}

}  // namespace

void Router::add(Route route) {
  CHECK((route.handler != nullptr) != (route.stream != nullptr), "{} {}", route.method, route.pattern);
  for (const Route& other : routes_)
    CHECK(other.method != route.method || other.pattern != route.pattern, "{} {} twice", route.method,
          route.pattern);
  patterns_.push_back(split(route.pattern));
  routes_.push_back(std::move(route));
}

Router::Match Router::find(const std::string& method, const std::vector<std::string>& segments) const {
  const std::string wanted = method == "HEAD" ? "GET" : method;
  size_t best = routes_.size();
  std::set<std::string> methods;
  for (size_t i = 0; i < routes_.size(); ++i) {
    if (!matches(patterns_[i], segments)) continue;
    methods.insert(routes_[i].method);
    if (routes_[i].method == "GET") methods.insert("HEAD");
    const bool right = routes_[i].method == wanted || routes_[i].method == method;
    if (right && (best == routes_.size() || more_literal(patterns_[i], patterns_[best]))) best = i;
  }
  Match match;
  if (best == routes_.size()) {
    for (const std::string& name : methods) match.allow += (match.allow.empty() ? "" : ", ") + name;
    return match;
  }
  match.route = &routes_[best];
  for (size_t i = 0; i < segments.size(); ++i) {
    const std::string& segment = patterns_[best][i];
    if (is_parameter(segment)) match.params[segment.substr(1, segment.size() - 2)] = segments[i];
  }
  return match;
}

}  // namespace nodus::http
