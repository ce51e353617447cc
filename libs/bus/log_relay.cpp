#include "libs/bus/log_relay.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "libs/bus/backoff.hpp"
#include "libs/telemetry/failpoint.hpp"
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"

namespace nodus::bus {
namespace {

constexpr Millis kSilence{2};  // between two rings, so that busy writers do not pay for hundreds of them

// One NOTIFY after any number of commits, never in the append itself: NOTIFY takes a lock of the whole
// database until its transaction ends and would halve the rate of commits. A bell that is lost costs the
// readers one poll interval.
class LogRelay final : public Relay {
 public:
  LogRelay(const std::string& topic, pg::ConnectOptions database)
      : notify_("NOTIFY nodus_" + topic),
        connection_(std::move(database)),
        age_(metrics::gauge_callback("nodus_bus_oldest_unpublished_seconds",
                                     "Age of the oldest event that is not on the bus", [] { return 0.0; },
                                     {{"topic", topic}})),
        thread_([this] { run(); }) {}

  ~LogRelay() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  void nudge() override {
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(nudged_, true)) return;  // the thread knows already
    }
    wake_.notify_one();
  }

  Micros oldest_unpublished() const override { return Micros(0); }

 private:
  void run() {
    Backoff backoff(Millis(20), Millis(2'000));
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return nudged_ || stopping_; });
      if (stopping_) return;
      nudged_ = false;
      lock.unlock();
      const bool rang = ring();
      lock.lock();
      if (rang) {
        backoff.reset();
        wake_.wait_for(lock, kSilence, [this] { return stopping_; });
      } else {
        nudged_ = true;
        wake_.wait_for(lock, backoff.next(), [this] { return stopping_; });
      }
    }
  }

  bool ring() {
    if (failpoint("bus.doorbell_lost")) return true;
    try {
      auto& connection = connection_.raw();
      pqxx::nontransaction tx(connection);
      if (!prepared_) tx.exec0("SET synchronous_commit = off");  // nothing here is worth an fsync
      prepared_ = true;
      tx.exec0(notify_);
      return true;
    } catch (const std::exception& e) {
      log::warn("bus.doorbell_failed", {{"error", std::string(e.what())}});
      prepared_ = false;
      connection_.disconnect();
      return false;
    }
  }

  const std::string notify_;
  pg::Connection connection_;  // of thread_
  bool prepared_ = false;      // of thread_
  std::shared_ptr<void> age_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool nudged_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Relay> make_log_relay(const std::string& topic, pg::ConnectOptions database) {
  return std::make_unique<LogRelay>(topic, std::move(database));
}

}  // namespace nodus::bus
