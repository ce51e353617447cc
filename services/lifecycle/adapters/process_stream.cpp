#include "services/lifecycle/adapters/process_stream.hpp"

#include <fmt/format.h>

#include "libs/base/random.hpp"
#include "libs/http/fetch.hpp"
#include "services/lifecycle/adapters/node_path.hpp"
#include "services/lifecycle/app/works.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

constexpr size_t kAnswerBytes = 64 * 1024;
constexpr size_t kPartBytes = 256 * 1024;  // read from the store at once
constexpr size_t kLineBytes = 1024 * 1024;
constexpr Millis kLookAgain{1'000};

// Lines of a node's answer, as they come in pieces.
class Lines {
 public:
  // The next whole line of what was given; none yet: nothing.
  std::optional<std::string_view> next() {
    const size_t end = text_.find('\n', at_);
    if (end == std::string::npos) return std::nullopt;
    const std::string_view line = std::string_view(text_).substr(at_, end - at_);
    at_ = end + 1;
    return line;
  }
  bool give(std::string_view part) {
    text_.erase(0, at_);
    at_ = 0;
    text_ += part;
    return text_.size() <= kLineBytes + part.size();
  }

 private:
  std::string text_;
  size_t at_ = 0;
};

class Streaming {
 public:
  Streaming(Api& api, http::Exchange& exchange, StreamOf what, OutputSink& sink)
      : api_(api), exchange_(exchange), what_(std::move(what)), sink_(sink), heard_(api.clock.boot()) {}
  awaitable<Streamed> run();

 private:
  awaitable<Result<void>> look();
  bool node_has_it() const;
  awaitable<void> from_node();
  awaitable<bool> begin();
  awaitable<bool> take(std::string_view part);
  bool read_line(std::string_view line, std::vector<OutputFrame>& frames);
  awaitable<void> from_store();
  awaitable<void> wait();
  awaitable<bool> give(std::span<const OutputFrame> frames);
  void refuse(http::Response response, bool unreached);
  bool done() const { return out_.end || out_.refused || left_; }

  Api& api_;
  http::Exchange& exchange_;
  StreamOf what_;
  OutputSink& sink_;
  Sandbox sandbox_;
  Lines lines_;
  Streamed out_;
  bool answered_ = false;  // by the node: it has the command
  bool doubtful_ = false;  // a request was sent, and nobody knows what became of it
  bool left_ = false;      // nobody listens
  Micros heard_;           // boot time when the listener last got something
  uint64_t ticket_ = 0;
};

// How the Process and its Sandbox are now.
awaitable<Result<void>> Streaming::look() {
  ticket_ = api_.waiters.ticket(process_stream(what_.process.admitted.uid));
  if (what_.sandbox) {
    sandbox_ = std::move(*what_.sandbox);
    what_.sandbox.reset();
    co_return Result<void>{};
  }
  co_return co_await blocking<void>(exchange_, [&]() -> Result<void> {
    auto process = api_.catalog.process(what_.process.admitted.uid);
    if (!process) return std::unexpected(std::move(process.error()));
    auto sandbox = api_.catalog.sandbox(process->admitted.sandbox);
    if (!sandbox) return std::unexpected(std::move(sandbox.error()));
    what_.process = std::move(*process);
    sandbox_ = std::move(*sandbox);
    return {};
  });
}

bool Streaming::node_has_it() const {
  return sandbox_.epoch == what_.process.admitted.epoch && !sandbox_.data_path.empty();
}

awaitable<bool> Streaming::give(std::span<const OutputFrame> frames) {
  if (frames.empty()) co_return true;
  heard_ = api_.clock.boot();
  what_.offset = frames.back().offset + frames.back().data.size();
  if (!co_await sink_.frames(frames)) left_ = true;
  co_return !left_;
}

void Streaming::refuse(http::Response response, bool unreached) {
  out_.refused = std::move(response);
  out_.unreached = unreached;
}

// False: the line is not one of ours.
bool Streaming::read_line(std::string_view line, std::vector<OutputFrame>& frames) {
  boost::system::error_code fault;
  const json::value parsed = json::parse(line, fault);
  const auto* root = fault ? nullptr : parsed.if_object();
  if (!root) return false;
  if (const auto* end = root->if_contains("end"); end && end->is_object()) {
    const auto* reason = end->get_object().if_contains("reason");
    const auto* code = end->get_object().if_contains("exitCode");
    const auto* message = end->get_object().if_contains("message");
    if (!reason || !reason->is_string() || !code || !code->is_int64()) return false;
    out_.end = StreamEnd{std::string(reason->get_string()), static_cast<int>(code->get_int64()),
                         message && message->is_string() ? std::string(message->get_string()) : ""};
    return true;
  }
  if (root->empty()) return true;  // the node's keep-alive
  const auto* stream = root->if_contains("stream");
  const auto* offset = root->if_contains("offset");
  const auto* data = root->if_contains("data");
  OutputFrame frame;
  if (!stream || !stream->is_string() || !offset || !offset->is_int64() || !data || !data->is_string() ||
      !from_base64(data->get_string(), frame.data))
    return false;
  frame.stream = stream->get_string() == "stderr" ? 2 : 1;
  frame.offset = static_cast<uint64_t>(offset->get_int64());
  if (frame.offset >= what_.offset) frames.push_back(std::move(frame));
  return true;
}

awaitable<bool> Streaming::begin() {
  if (!co_await sink_.begun()) left_ = true;
  co_return !left_;
}

awaitable<bool> Streaming::take(std::string_view part) {
  if (!lines_.give(part)) co_return false;
  std::vector<OutputFrame> frames;
  std::optional<StreamEnd> end;
  while (const auto line = lines_.next()) {
    if (!read_line(*line, frames)) co_return false;
    if (out_.end) break;
  }
  std::swap(end, out_.end);  // it counts when the output before it has gone out
  if (!co_await give(frames)) co_return false;
  if (end) out_.end = std::move(end);
  // The node says that it is there as often as we should: half the time is near enough.
  if (!out_.end && api_.clock.boot() - heard_ >= api_.options.keep_alive / 2) {
    heard_ = api_.clock.boot();
    if (!co_await sink_.quiet()) left_ = true;
  }
  co_return !done();
}

awaitable<void> Streaming::from_node() {
  const bool starts = !what_.start.empty() && !what_.process.ended && !answered_;
  std::string rest = fmt::format("processes?offset={}", what_.offset);
  if (!starts) rest += "&attach=1";
  if (!what_.follow || what_.process.ended) rest += "&follow=0";
  auto upstream = node_upstream(api_, sandbox_, what_.process.admitted.epoch, rest);
  upstream.method = "POST";
  upstream.body = what_.start.empty() ? node_command(what_.process, {}) : what_.start;
  upstream.headers.set("Content-Type", "application/json");
  lines_ = {};
  auto intercept = std::move(upstream.intercept);
  bool whole = false;
  auto answer =
      co_await http::fetch(std::move(upstream), kAnswerBytes, [&](std::string_view part) -> awaitable<bool> {
        answered_ = true;
        return part.empty() ? begin() : take(part);
      });
  if (done()) co_return;
  if (answer && answer->status / 100 == 2) {
    answered_ = whole = true;
    co_return;
  }
  const bool first = starts && !doubtful_;
  if (answer && first) {
    auto instead = intercept(answer->status, answer->headers);
    answer->headers.erase("X-Nodus-Reason");
    co_return refuse(instead ? std::move(*instead) : std::move(*answer), true);
  }
  if (answer) co_return;  // it does not have it, or not any more
  const bool unsent = answer.error().reason == "UpstreamUnreachable";
  if (first && unsent)
    co_return refuse(http::status(sandbox_starting(
                         api_, "The machine of Sandbox \"" + sandbox_.name + "\" cannot be reached now.")),
                     true);
  doubtful_ = doubtful_ || !unsent;
}

awaitable<void> Streaming::from_store() {
  const OutputKey key{what_.process.admitted.sandbox, what_.process.admitted.uid};
  OutputCursor cursor{what_.offset, 0};
  while (!done()) {
    auto part = co_await blocking<std::vector<OutputFrame>>(
        exchange_, [&] { return api_.outputs.read(key, cursor, kPartBytes); });
    if (!part || part->empty() || !co_await give(*part)) co_return;
  }
}

awaitable<void> Streaming::wait() {
  const Micros left = api_.options.keep_alive - (api_.clock.boot() - heard_);
  const auto pause = std::clamp(std::chrono::ceil<Millis>(left), Millis(1), kLookAgain);
  co_await api_.waiters.wait(process_stream(what_.process.admitted.uid), ticket_, pause);
  if (api_.clock.boot() - heard_ < api_.options.keep_alive) co_return;
  heard_ = api_.clock.boot();
  if (!co_await sink_.quiet()) left_ = true;
}

awaitable<Streamed> Streaming::run() {
  for (bool again = false;; again = true) {
    if (auto looked = co_await look(); !looked) {
      if (again && retryable(looked.error().code)) {
        co_await wait();
        if (left_) co_return out_;
        continue;
      }
      refuse(http::status(looked.error()), false);
      co_return out_;
    }
    const auto& ended = what_.process.ended;
    if (ended) {
      co_await from_store();
      const auto written = static_cast<uint64_t>(ended->stdout_bytes + ended->stderr_bytes);
      // The store may have less than there was: it was full, or the command was another release's.
      if (!done() && what_.offset < written && node_has_it()) co_await from_node();
      if (!left_) out_.end = StreamEnd{ended->reason, ended->exit_code, ended->message};
      co_return out_;
    }
    // What it has written so far is on its node, and up to the last second in the store.
    if (node_has_it()) co_await from_node();
    if (!done() && (!what_.follow || !node_has_it())) co_await from_store();
    if (done() || !what_.follow) co_return out_;
    co_await wait();
    if (left_) co_return out_;
  }
}

}  // namespace

std::string node_command(const Process& process, json::object body,
                         const std::map<std::string, std::string>& env) {
  json::object all;
  for (const auto& [name, value] : env) all[name] = value;
  if (const auto* own = body.if_contains("env"); own && own->is_object())
    for (const auto& [name, value] : own->get_object()) all[name] = value;
  if (!all.empty()) body["env"] = std::move(all);
  json::array command;
  for (const auto& argument : process.admitted.command) command.emplace_back(argument);
  body["command"] = std::move(command);
  body["uid"] = process.admitted.uid.str();
  body["name"] = process.admitted.name;
  body["timeoutMs"] = std::chrono::ceil<Millis>(process.admitted.timeout).count();
  return json::serialize(body);
}

awaitable<Streamed> stream_process(Api& api, http::Exchange& exchange, StreamOf what, OutputSink& sink) {
  Streaming streaming(api, exchange, std::move(what), sink);
  co_return co_await streaming.run();
}

}  // namespace nodus::lifecycle
