#include <fmt/core.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "libs/base/check.hpp"
#include "libs/bus/backoff.hpp"
#include "libs/bus/batch.hpp"
#include "libs/bus/inbox.hpp"
#include "libs/telemetry/failpoint.hpp"
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"

namespace nodus::bus {
namespace {

constexpr Seconds kReloadParked{5};

class ConsumerThread final : public Consumer {
 public:
  ConsumerThread(const std::string& topic, std::function<Result<std::unique_ptr<Source>>(OffsetOf)> open,
                 eventlog::EventLog& own, pg::Pool& own_database, Route route, ConsumerOptions options)
      : topic_(topic),
        open_(std::move(open)),
        own_(own),
        database_(own_database),
        route_(std::move(route)),
        options_(options),
        applied_total_(metrics::counter("nodus_bus_applied_total", "Messages whose effect is committed",
                                        {{"topic", topic}})),
        parked_gauge_(
            metrics::gauge("nodus_bus_parked", "Messages that wait for an operator", {{"topic", topic}})),
        unapplied_(metrics::gauge_callback("nodus_bus_oldest_unapplied_seconds",
                                           "Age of the oldest message that was received but not applied",
                                           [this] { return age_s(oldest_us_.load()); }, {{"topic", topic}})),
        failures_(metrics::counter("nodus_bus_consumer_failures_total",
                                   "Polls and transactions that will be tried again", {{"topic", topic}})),
        thread_([this] { run(); }) {}

  ~ConsumerThread() override { stop(); }

  void stop() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    while (!stopping()) {
      if (auto turn = one_turn(); turn) {
        backoff_.reset();
        failing_ = false;
      } else {
        failures_.add();
        if (!failing_)
          log::warn("bus.consumer_waits", {{"topic", topic_}, {"error", describe(turn.error())}});
        failing_ = true;
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, backoff_.next(), [this] { return stopping_; });
      }
    }
    source_.reset();
  }

  Result<> one_turn() {
    if (auto loaded = reload_parked(); !loaded) return loaded;
    if (!source_) {
      auto source = open_([this](int partition) { return offset_of(partition); });
      if (!source) return std::unexpected(std::move(source.error()));
      source_ = std::move(*source);
    }
    auto messages = source_->poll(options_.max_batch, options_.poll);
    if (!messages) return std::unexpected(std::move(messages.error()));
    auto items = accept(std::move(*messages));
    if (!items) return std::unexpected(std::move(items.error()));
    if (items->empty()) return {};
    oldest_us_ = to_micros(items->front().message.at);
    auto done = apply(*items);
    if (failpoint("bus.after_commit")) return fail(Code::kUnavailable, "Failpoint", "bus.after_commit");
    if (done && *done) {
      oldest_us_ = 0;
      return {};
    }
    for (const auto& item : *items) source_->rewind(item.message.partition);
    parked_loaded_at_ = std::nullopt;
    if (!done) return std::unexpected(std::move(done.error()));
    return {};
  }

  Result<Offset> offset_of(int partition) {
    auto offset = database_.with_tx(
        [&](pg::Tx& tx) -> Result<Offset> { return inbox::read_offset(tx, topic_, partition); });
    if (offset) {
      applied_[partition] = offset->position;
      stopped(partition, false);
    }
    return offset;
  }

  // The operator's commands run elsewhere, so what is parked is read again from time to time.
  Result<> reload_parked() {
    const auto now = std::chrono::steady_clock::now();
    if (parked_loaded_at_ && now - *parked_loaded_at_ < kReloadParked) return {};
    auto loaded = database_.with_tx([&](pg::Tx& tx) -> Result<> {
      blocked_ = inbox::parked_streams(tx, topic_);
      parked_gauge_.set(static_cast<double>(inbox::parked_count(tx, topic_)));
      return {};
    });
    if (loaded) parked_loaded_at_ = now;
    return loaded;
  }

  // Drops what was applied before and what lies behind a gap; routes the rest.
  Result<std::vector<Item>> accept(std::vector<Message> messages) {
    auto last = applied_;
    std::vector<Item> items;
    items.reserve(messages.size());
    for (auto& message : messages) {
      const int partition = message.partition;
      CHECK(last.contains(partition), "partition {} of {} came without an offset", partition, topic_);
      auto& position = last[partition];
      if (message.position <= position) continue;
      if (message.position > position + 1) {
        gap(message, position);
        continue;
      }
      stopped(partition, false);
      position = message.position;
      Item item{std::move(message), std::nullopt, std::nullopt};
      auto work = route_(item.message);
      if (work)
        item.work = std::move(*work);
      else if (retryable(work.error().code))
        return rewound(items, item, std::move(work.error()));
      else
        item.fault = std::move(work.error());
      items.push_back(std::move(item));
    }
    return items;
  }

  Result<std::vector<Item>> rewound(const std::vector<Item>& items, const Item& item, Error error) {
    source_->rewind(item.message.partition);
    for (const auto& earlier : items) source_->rewind(earlier.message.partition);
    return std::unexpected(std::move(error));
  }

  // True: all is committed. False: read the offsets again.
  Result<bool> apply(std::span<const Item> items) {
    auto attempt = apply_items(own_, database_, items, applied_, blocked_);
    switch (attempt.outcome) {
      case Outcome::kCommitted:
        committed(items, attempt);
        return true;
      case Outcome::kStale:
        return false;
      case Outcome::kRetry:
        return std::unexpected(std::move(attempt.error));
      case Outcome::kRejected:
        break;
    }
    if (items.size() > 1) {
      const auto half = items.size() / 2;
      auto first = apply(items.first(half));
      return first && *first ? apply(items.subspan(half)) : first;
    }
    if (items[0].fault) return std::unexpected(std::move(attempt.error));  // not even parking works
    Item parked{items[0].message, std::nullopt, std::move(attempt.error)};
    return apply(std::span(&parked, 1));
  }

  void committed(std::span<const Item> items, const Attempt& attempt) {
    for (const auto& item : items) applied_[item.message.partition] = item.message.position;
    applied_total_.add(static_cast<double>(items.size() - attempt.parked.size()));
    for (const auto& [message, error] : attempt.parked) {
      blocked_.insert(message->stream);
      parked_gauge_.add(1);
      if (error.reason == kBehind) continue;
      log::error("bus.message_parked", {{"topic", topic_},
                                        {"stream", message->stream},
                                        {"type", message->type},
                                        {"log_partition", int64_t{message->partition}},
                                        {"position", message->position},
                                        {"error", describe(error)}});
    }
  }

  static double age_s(int64_t since_us) {
    if (since_us == 0) return 0;
    return std::max(0.0, static_cast<double>(to_micros(SystemClock().now()) - since_us) / 1e6);
  }

  void gap(const Message& message, int64_t last) {
    if (stopped_.contains(message.partition)) return;
    stopped(message.partition, true);
    log::error("bus.gap", {{"topic", topic_},
                           {"log_partition", int64_t{message.partition}},
                           {"expected", last + 1},
                           {"found", message.position}});
  }

  void stopped(int partition, bool yes) {
    const bool changed = yes ? stopped_.insert(partition).second : stopped_.erase(partition) > 0;
    if (!changed) return;
    metrics::gauge("nodus_bus_partition_stopped",
                   "1: messages are missing; an operator must publish them again",
                   {{"topic", topic_}, {"log_partition", std::to_string(partition)}})
        .set(yes ? 1 : 0);
  }

  bool stopping() {
    std::lock_guard lock(mutex_);
    return stopping_;
  }

  const std::string topic_;
  const std::function<Result<std::unique_ptr<Source>>(OffsetOf)> open_;
  eventlog::EventLog& own_;
  pg::Pool& database_;
  const Route route_;
  const ConsumerOptions options_;
  std::atomic<int64_t> oldest_us_ = 0;  // writer's clock; 0: all that was received is applied
  metrics::Counter applied_total_;
  metrics::Gauge parked_gauge_;
  std::shared_ptr<void> unapplied_;
  metrics::Counter failures_;

  // All of thread_ only.
  std::unique_ptr<Source> source_;
  std::map<int, int64_t> applied_;  // per partition: last position whose effect is committed
  std::set<int> stopped_;
  std::set<std::string> blocked_;
  std::optional<std::chrono::steady_clock::time_point> parked_loaded_at_;
  Backoff backoff_{Millis(50), Millis(5'000)};
  bool failing_ = false;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Consumer> make_consumer(const std::string& topic,
                                        std::function<Result<std::unique_ptr<Source>>(OffsetOf)> open,
                                        eventlog::EventLog& own, pg::Pool& own_database, Route route,
                                        ConsumerOptions options) {
  return std::make_unique<ConsumerThread>(topic, std::move(open), own, own_database, std::move(route),
                                          options);
}

}  // namespace nodus::bus
