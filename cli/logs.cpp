// logs: what a command wrote, from where it is kept.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.hpp"
#include "cli/frames.hpp"
#include "cli/names.hpp"
#include "cli/output.hpp"
#include "cli/read.hpp"
#include "libs/http/target.hpp"

namespace nodus::cli {

namespace json = boost::json;

namespace {

constexpr Millis kSilence{60'000};  // the server sends something every 15 s

Result<std::string> latest_of(Api& api, const std::string& sandbox) {
  if (const auto there = api.json("GET", "/sandboxes/" + http::escape(sandbox)); !there)
    return std::unexpected(there.error());
  auto listed = list_all(api, Kind::kProcess, field_selector("spec.sandbox", sandbox));
  if (!listed) return std::unexpected(std::move(listed.error()));
  const auto latest = std::ranges::max_element(listed->items, {}, [](const json::value& process) {
    return text_at(process, "metadata.creationTimestamp");
  });
  if (latest == listed->items.end())
    return fail(Code::kNotFound, "NoProcess", "No command has run in sandboxes/" + sandbox + ".");
  return text_at(*latest, "metadata.name");
}

}  // namespace

int logs(Api& api, const LogFlags& flags) {
  Console& console = api.console();
  const auto targets = targets_of({flags.what});
  if (!targets) return report(console, targets.error());
  std::string name = targets->front().name;
  if (targets->front().kind == Kind::kSandbox) {
    const auto latest = latest_of(api, name);
    if (!latest) return report(console, latest.error());
    name = *latest;
  }
  bool reader_left = false, malformed = false;
  Frames frames([&](bool is_stderr, std::string_view bytes) {
    std::ostream& out = is_stderr ? console.err : console.out;
    reader_left |= !out.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
  });
  Micros since = console.clock->boot();
  Progress away(console, "the server is away or busy; trying again");
  http::ClientRequest request;
  request.headers.set("Accept", "application/x-ndjson");
  request.total_time = Millis(0);
  request.idle_time = kSilence;
  request.on_body = [&](std::string_view part) {
    since = console.clock->boot();
    malformed = !frames.feed(part);
    return !malformed && !frames.end() && !reader_left;
  };
  for (int attempt = 1;; ++attempt) {
    request.url = api.url(fmt::format("/processes/{}/log?offset={}", http::escape(name), frames.offset()));
    if (flags.follow) request.url += "&follow=true";
    if (!flags.stream.empty()) request.url += "&stream=" + flags.stream;
    frames.begin();
    const auto answer = api.attempt(request);
    if (reader_left) return kOk;
    if (malformed)
      return report(
          console,
          {Code::kInternal, "BadAnswer", "The server's answer is not a command's output.", {}, {}, ""});
    if (frames.end() || (answer && !flags.follow)) break;
    const Error error = answer ? Error{Code::kUnavailable,
                                       "ConnectionLost",
                                       "The connection ended before the command did.",
                                       {},
                                       {},
                                       ""}
                               : answer.error();
    if (!api.pause(error, attempt, since, "", away)) return report(console, error);
  }
  if (frames.missing() > 0 && flags.stream.empty())  // of one stream there are always gaps
    console.err << fmt::format("warning: {} bytes of output are not kept.\n", frames.missing());
  return kOk;
}

}  // namespace nodus::cli
