// Reading objects: whole lists, and what changes.
#pragma once

#include <boost/json/value.hpp>
#include <functional>
#include <string>
#include <vector>

#include "cli/api.hpp"
#include "cli/names.hpp"

namespace nodus::cli {

struct Listed {
  std::vector<boost::json::value> items;
  std::string version;  // to watch from
};
// Every page of it. `query` such as "labelSelector=app%3Dweb&limit=500"; may be empty.
Result<Listed> list_all(Api& api, Kind kind, const std::string& query);

struct Change {
  std::string type;  // ADDED, MODIFIED, DELETED, BOOKMARK
  boost::json::value object;
};
enum class Watched {
  kSeen,         // `on_change` said that it has seen enough
  kEnded,        // the time is over, or the connection
  kExpired,      // the version is older than what the server keeps: list anew
  kUnsupported,  // this server has no watch
};
struct WatchRequest {
  Kind kind = Kind::kSandbox;
  std::string query;                   // as in list_all
  std::string version;                 // of a list or an object; empty: begins with what is there
  Micros patience{0};                  // 0: for ever
  std::function<void()> waiting = {};  // called about once a second
};
Watched watch(Api& api, const WatchRequest& request, const std::function<bool(const Change&)>& on_change);

std::string field_selector(const std::string& field, const std::string& value);  // fieldSelector=… , escaped

enum class Seen { kWaiting, kDone, kFailed };

struct Waiting {
  Target target;
  std::string doing;          // "starting", for what is told meanwhile
  Seen gone = Seen::kFailed;  // what it means that there is no such object
  Micros patience{0};
  std::function<Seen(const boost::json::value&)> judge;
  Progress::When when = Progress::When::kLater;
};
// Watches (reads again and again, where there is no watch) until `judge` has seen enough. Returns the exit
// code; what went wrong is told.
int wait_until(Api& api, const Waiting& waiting);

// After a 503 SandboxStarting: waits until asking again is worth it. kNo: nothing new was seen, sleep
// instead.
enum class Ready { kYes, kNo, kUnknown };  // kUnknown: this server has no watch
Ready await_ready(Api& api, const std::string& sandbox, Micros patience,
                  const std::function<void()>& waiting);

// The members "items", or nothing.
std::vector<boost::json::value> items_of(const boost::json::value& list);

}  // namespace nodus::cli
