// The public API as the CLI calls it: base URL, key, retries.
#pragma once

#include <boost/json/value.hpp>
#include <functional>
#include <string>

#include "cli/console.hpp"
#include "libs/http/client.hpp"

namespace nodus::cli {

struct Settings {
  std::string base;  // …/apis/nodus.dev/v1/namespaces/<project>
  std::string key;
  Micros retry_for = Seconds(120);
  Micros wait_for = Seconds(600);  // until stopped, started or gone
};

// From the flags (empty: not given) and NODUS_API, NODUS_PROJECT, NODUS_API_KEY. Errors: LocalFault.
Result<Settings> make_settings(const std::string& api_flag, const std::string& project_flag,
                               const std::map<std::string, std::string>& environment);

struct JsonAnswer {
  int status = 0;
  boost::json::value body;
};

class Api {
 public:
  Api(Console& console, Settings settings);

  // Repeats what is worth repeating until Settings::retry_for has passed. `prepare` is called before each
  // attempt with the request to complete (read_body must begin anew). Mutations carry one Idempotency-Key
  // through all attempts. An answer of 400 and more is an Error.
  Result<http::Response> call(http::ClientRequest request,
                              const std::function<void(http::ClientRequest&)>& prepare = {},
                              const std::string& waiting_for = "");
  Result<JsonAnswer> json(const std::string& method, const std::string& path, const std::string& body = "",
                          const std::string& content_type = "application/json") {
    return json_at(method, url(path), body, content_type);
  }
  Result<JsonAnswer> json_at(const std::string& method, const std::string& url, const std::string& body = "",
                             const std::string& content_type = "application/json");
  // One attempt, for callers with their own idea of progress. A watch has a connection of its own.
  enum class Line { kCall, kWatch };
  Result<http::Response> attempt(const http::ClientRequest& request, Line line = Line::kCall);
  // Waits before the next attempt; false: not worth it, or the time since `since` is over. A Sandbox that is
  // starting is watched, so that the next attempt comes as soon as it runs.
  bool pause(const Error& error, int attempt, Micros since, const std::string& sandbox, Progress& progress);

  // Whether a noted signal ends calls, as Unavailable/Interrupted. What tidies up does not heed it.
  void heed_signals(bool heed) { heeds_signals_ = heed; }

  std::string url(const std::string& path) const { return settings_.base + path; }
  // …/apis/nodus.dev/v1, for what is not a project's.
  std::string root() const { return settings_.base.substr(0, settings_.base.find("/namespaces/")); }
  const Settings& settings() const { return settings_; }
  Console& console() const { return console_; }
  int attempts() const { return attempts_; }  // of the last call

 private:
  Console& console_;
  const Settings settings_;
  http::Client client_, watcher_;
  bool heeds_signals_ = true;
  bool watches_ = true;  // until the server knows no watch
  int attempts_ = 0;
};

}  // namespace nodus::cli
