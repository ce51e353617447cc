#include "libs/telemetry/failpoint.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "libs/telemetry/log.hpp"

namespace nodus {

namespace {

enum class Action { kKill, kDelay, kError };

struct Point {
  Action action = Action::kError;
  int64_t argument = 0;  // kill, error: which time (error 0: every time); delay: milliseconds
  std::atomic<int64_t> hits{0};
};

using Points = std::map<std::string, std::unique_ptr<Point>, std::less<>>;

[[noreturn]] void refuse(std::string_view item) {
  fmt::print(stderr,
             "NODUS_FAILPOINT: \"{}\" is not name=kill:N, name=delay:Nms, name=delay:Ns or name=error[:N].\n",
             item);
  std::_Exit(2);
}

void parse_point(std::string_view item, Points& points) {
  const size_t equals = item.find('=');
  if (equals == 0 || equals == std::string_view::npos) refuse(item);
  std::string_view action = item.substr(equals + 1);
  std::string_view argument;
  if (const size_t colon = action.find(':'); colon != std::string_view::npos) {
    argument = action.substr(colon + 1);
    action = action.substr(0, colon);
  }
  auto point = std::make_unique<Point>();
  int64_t unit = 1;
  if (action == "delay") {
    point->action = Action::kDelay;
    if (argument.ends_with("ms")) {
      argument.remove_suffix(2);
    } else if (argument.ends_with("s")) {
      argument.remove_suffix(1);
      unit = 1000;
    } else {
      refuse(item);
    }
  } else if (action == "kill") {
    point->action = Action::kKill;
    point->argument = 1;
  } else if (action != "error") {
    refuse(item);
  }
  if (!argument.empty() || action == "delay") {
    const auto [end, error] =
        std::from_chars(argument.data(), argument.data() + argument.size(), point->argument);
    if (error != std::errc() || end != argument.data() + argument.size() || point->argument < 0) refuse(item);
  }
  point->argument *= unit;
  points[std::string(item.substr(0, equals))] = std::move(point);
}

const Points& points() {
  static const Points& all = *[] {
    auto* made = new Points;
    const char* text = std::getenv("NODUS_FAILPOINT");
    std::string_view rest = text ? text : "";
    while (!rest.empty()) {
      const size_t comma = rest.find(',');
      parse_point(rest.substr(0, comma), *made);
      rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    }
    return made;
  }();
  return all;
}

}  // namespace

bool failpoint(std::string_view name) {
  const Points& all = points();
  if (all.empty()) return false;
  const auto found = all.find(name);
  if (found == all.end()) return false;
  Point& point = *found->second;
  const int64_t hit = ++point.hits;
  if (point.action == Action::kDelay) {
    log::warn("failpoint.delay", {{"name", std::string(name)}, {"delay_ms", point.argument}});
    std::this_thread::sleep_for(std::chrono::milliseconds(point.argument));
    return false;
  }
  if (point.argument != 0 && hit != point.argument) return false;
  if (point.action == Action::kKill) {
    log::warn("failpoint.kill", {{"name", std::string(name)}, {"hit", hit}});
    kill(getpid(), SIGKILL);
  }
  log::warn("failpoint.error", {{"name", std::string(name)}, {"hit", hit}});
  return true;
}

}  // namespace nodus
