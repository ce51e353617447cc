#include "services/executor/adapters/channel/node_channel.hpp"

#include <algorithm>

#include "libs/base/random.hpp"
#include "libs/telemetry/failpoint.hpp"
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"

namespace nodus::executor {

static constexpr Millis kFirstPoll{30'000};   // until the scheduler says how long
static constexpr Millis kAnswerTime{10'000};  // beyond what a poll may hang

NodeChannel::NodeChannel(ChannelOptions options, NodeIdentity identity, Reconciler& reconciler)
    : options_(std::move(options)), identity_(std::move(identity)), reconciler_(reconciler) {}

NodeChannel::~NodeChannel() {
  stop();
}

void NodeChannel::start() {
  poller_ = std::thread([this] { poll(); });
  reporter_ = std::thread([this] { report(); });
}

void NodeChannel::stop() {
  stopping_ = true;
  if (poller_.joinable()) poller_.join();
  if (reporter_.joinable()) reporter_.join();
}

Result<void> NodeChannel::ready() const {
  const int64_t at = answered_at_us_;
  if (at == 0) return fail(Code::kUnavailable, "NotReady", "The scheduler has not answered yet.");
  if (SystemClock().boot() - Micros(at) > options_.silent_limit)
    return fail(Code::kUnavailable, "NotReady", "The scheduler does not answer.");
  return {};
}

Result<SyncAnswer> NodeChannel::sync(http::Client& client, int64_t seen_version, Millis patience) {
  http::ClientRequest request;
  request.method = "POST";
  request.url = options_.url + "/node/v1/sync";
  request.headers.set("Content-Type", "application/x-protobuf");
  request.headers.set("Authorization", "Bearer " + options_.token);
  NodeIdentity identity;
  {
    const std::lock_guard lock(mutex_);
    identity = identity_;
    request.body = encode_sync(identity, seen_version, reconciler_.reports());
  }
  request.total_time = patience;
  request.cancelled = [this] { return stopping_.load(); };
  failpoint("node.before_report");
  auto response = client.call(request);
  if (!response) return std::unexpected(response.error());
  if (response->status != 200) return std::unexpected(http::parse_status(*response));
  std::vector<std::string> refused;
  auto answer = decode_answer(response->body, refused);
  for (const auto& sentence : refused) log::error("slot.refused", {{"message", sentence}});
  if (!answer) return answer;
  if (answered_at_us_ == 0) log::info("node.registered", {{"machine", identity.machine}});
  answered_at_us_ = SystemClock().boot().count();
  if (auto heard = hear(*answer, identity.incarnation); !heard) return std::unexpected(heard.error());
  return answer;
}

// Lost: everything here was given to others or ended. It is destroyed, without being saved, before this
// machine comes back as a new one.
Result<void> NodeChannel::hear(const SyncAnswer& answer, const std::string& sent_as) {
  const std::lock_guard lock(mutex_);
  if (identity_.incarnation != sent_as) return {};  // said to who we were
  if (!answer.lost) {
    reconciler_.apply(answer.desired);
    return {};
  }
  reconciler_.apply({.version = answer.desired.version, .complete = true, .orders = {}});
  if (!reconciler_.reports().empty())
    return fail(Code::kUnavailable, "MachineIsLost",
                "This machine was declared lost; it registers anew once it has destroyed what it has.");
  auto fresh = options_.renew();
  if (!fresh) return std::unexpected(fresh.error());
  log::warn("node.lost", {{"machine", identity_.machine}, {"incarnation", *fresh}});
  identity_.incarnation = std::move(*fresh);
  return {};
}

// The pause after a failure grows, with jitter; it ends early at stop().
void NodeChannel::pause(Millis& delay) {
  delay = std::clamp(delay * 2, options_.retry_first, options_.retry_last);
  const auto wait = delay / 2 + Millis(random_below(static_cast<uint64_t>(delay.count()) / 2 + 1));
  const auto until = SystemClock().boot() + wait;
  constexpr Millis kStep{50};
  while (!stopping_ && SystemClock().boot() < until) std::this_thread::sleep_for(kStep);
}

void NodeChannel::poll() {
  http::Client client;
  auto failures = metrics::counter("nodus_node_sync_failures_total", "Calls to the scheduler that failed");
  Millis hang = kFirstPoll;
  Millis delay{0};
  while (!stopping_) {
    auto answer = sync(client, reconciler_.version(), hang + kAnswerTime);
    if (answer) {
      hang = std::clamp(answer->poll, Millis(0), Millis(120'000));
      delay = Millis(0);
      continue;
    }
    if (stopping_) return;
    failures.add();
    log::warn("node.sync.failed", {{"message", answer.error().message}});
    pause(delay);
  }
}

// A connection of its own: the long poll hangs in the other. Version 0 asks for an answer at once.
void NodeChannel::report() {
  http::Client client;
  uint64_t reported = 0;
  Millis delay{0};
  constexpr Millis kLook{500};  // how soon stop() is noticed
  while (!stopping_) {
    const uint64_t newest = reconciler_.wait_for_change(reported, kLook);
    if (newest == reported || stopping_) continue;
    if (sync(client, 0, kAnswerTime)) {
      reported = newest;
      delay = Millis(0);
    } else {
      pause(delay);
    }
  }
}

}  // namespace nodus::executor
