#include "cli/api.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <utility>

#include "cli/read.hpp"
#include "cli/retry.hpp"
#include "libs/base/random.hpp"

namespace nodus::cli {

namespace {

std::string value_of(const std::map<std::string, std::string>& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

constexpr Micros kLongestWatch = Seconds(20);

// The Sandbox that a URL is about: …/sandboxes/NAME/files?…
std::string sandbox_of(const std::string& url) {
  constexpr std::string_view kPart = "/sandboxes/";
  const size_t at = url.find(kPart);
  if (at == std::string::npos) return "";
  const std::string rest = url.substr(at + kPart.size());
  return rest.substr(0, rest.find_first_of("/?"));
}

std::unexpected<Error> local(std::string message) {
  return fail(Code::kInvalid, "LocalFault", std::move(message));
}

std::unexpected<Error> interrupted() {
  return fail(Code::kUnavailable, "Interrupted", "");
}

}  // namespace

Result<Settings> make_settings(const std::string& api_flag, const std::string& project_flag,
                               const std::map<std::string, std::string>& environment) {
  Settings settings;
  settings.base = api_flag.empty() ? value_of(environment, "NODUS_API") : api_flag;
  settings.key = value_of(environment, "NODUS_API_KEY");
  if (settings.base.empty()) return local("NODUS_API is not set; it names the server (or give --api URL).");
  if (!settings.base.starts_with("http://") && !settings.base.starts_with("https://"))
    return local("The API \"" + settings.base + "\" is not an http:// or https:// URL.");
  if (settings.key.empty()) return local("NODUS_API_KEY is not set; it is the key that calls are made with.");
  if (!std::ranges::all_of(settings.key, [](char c) { return c > 0x20 && c < 0x7f; }))
    return local("NODUS_API_KEY has a character that no key has.");
  while (settings.base.ends_with('/')) settings.base.pop_back();
  const size_t namespaces = settings.base.find("/namespaces/");
  const std::string project = project_flag.empty() && namespaces == std::string::npos
                                  ? value_of(environment, "NODUS_PROJECT")
                                  : project_flag;
  if (!project.empty()) {
    const bool label = std::ranges::all_of(
        project, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
    if (!label)
      return local("The project \"" + project + "\" is not a name of lower-case letters, digits and \"-\".");
    if (namespaces != std::string::npos) settings.base.erase(namespaces);
    if (settings.base.find("/apis/") == std::string::npos) settings.base += "/apis/nodus.dev/v1";
    settings.base += "/namespaces/" + project;
  } else if (namespaces == std::string::npos) {
    return local("NODUS_PROJECT is not set; it names the project (or give --project NAME).");
  }
  return settings;
}

Api::Api(Console& console, Settings settings) : console_(console), settings_(std::move(settings)) {}

Result<http::Response> Api::attempt(const http::ClientRequest& request, Line line) {
  http::ClientRequest sent = request;
  sent.headers.set("Authorization", "Bearer " + settings_.key);
  sent.headers.set("User-Agent", "nodus/" NODUS_VERSION);
  sent.cancelled = [this, asked = request.cancelled] {
    return (asked && asked()) || (heeds_signals_ && console_.interrupted() != 0);
  };
  Result<http::Response> answer = (line == Line::kWatch ? watcher_ : client_).call(sent);
  if (!answer && heeds_signals_ && console_.interrupted() != 0) return interrupted();
  if (answer && answer->status >= 400) return std::unexpected(http::parse_status(*answer));
  return answer;
}

bool Api::pause(const Error& error, int attempt, Micros since, const std::string& sandbox,
                Progress& progress) {
  const Micros left = settings_.retry_for - (console_.clock->boot() - since);
  const auto delay = retry_delay(error, attempt, left, random_below(1'000'000));
  if (!delay) return false;
  progress.waiting();
  const auto stopped = [this] { return heeds_signals_ && console_.interrupted() != 0; };
  if (stopped()) return false;
  if (watches_ && error.reason == "SandboxStarting" && !sandbox.empty()) {
    // Not for ever: each attempt is also a trigger, and what is seen may be behind.
    const auto ready =
        await_ready(*this, sandbox, std::min<Micros>(left, kLongestWatch), [&] { progress.waiting(); });
    watches_ = ready != Ready::kUnknown;
    if (ready == Ready::kYes) return true;
  }
  console_.sleep(*delay);
  return !stopped();
}

Result<http::Response> Api::call(http::ClientRequest request,
                                 const std::function<void(http::ClientRequest&)>& prepare,
                                 const std::string& waiting_for) {
  if (request.method != "GET" && !request.headers.get("Idempotency-Key"))
    request.headers.set("Idempotency-Key", random_uuid());
  const Micros begun = console_.clock->boot();
  Progress progress(console_, waiting_for.empty() ? "the server is away or busy; trying again" : waiting_for);
  for (attempts_ = 1;; ++attempts_) {
    if (prepare) prepare(request);
    Result<http::Response> answer = attempt(request);
    if (answer || !pause(answer.error(), attempts_, begun, sandbox_of(request.url), progress))
      return answer || console_.interrupted() == 0 || !heeds_signals_ ? std::move(answer) : interrupted();
  }
}

Result<JsonAnswer> Api::json_at(const std::string& method, const std::string& url, const std::string& body,
                                const std::string& content_type) {
  http::ClientRequest request;
  request.method = method;
  request.url = url;
  request.body = body;
  request.headers.set("Accept", "application/json");
  if (!body.empty()) request.headers.set("Content-Type", content_type);
  const auto answer = call(std::move(request));
  if (!answer) return std::unexpected(answer.error());
  if (answer->body.empty()) return JsonAnswer{answer->status, nullptr};
  boost::system::error_code fault;
  boost::json::value value = boost::json::parse(answer->body, fault);
  if (fault)
    return fail(Code::kInternal, "BadAnswer", "The server's answer is not JSON: is NODUS_API right?");
  return JsonAnswer{answer->status, std::move(value)};
}

}  // namespace nodus::cli
