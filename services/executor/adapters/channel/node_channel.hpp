// The node's side of the node channel: one thread hangs in a long poll for what the scheduler wants, another
// reports at once what changed here. Both send all that is true, so a lost or repeated call does no harm.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "libs/http/client.hpp"
#include "services/executor/adapters/channel/codec.hpp"

namespace nodus::executor {

struct ChannelOptions {
  std::string url;    // of the scheduler: http://127.0.0.1:7401
  std::string token;  // of this node
  Millis retry_first{200};
  Millis retry_last{5'000};
  Millis silent_limit{60'000};  // longer without an answer: not ready
  // A fresh incarnation, on disk before it is used: the scheduler declared ours lost.
  std::function<Result<std::string>()> renew = nullptr;
};

class NodeChannel {
 public:
  NodeChannel(ChannelOptions options, NodeIdentity identity, Reconciler& reconciler);
  ~NodeChannel();
  void start();
  void stop();  // within about a second
  // The scheduler answered not long ago.
  Result<void> ready() const;

 private:
  void poll();
  void report();
  Result<SyncAnswer> sync(http::Client& client, int64_t seen_version, Millis patience);
  Result<void> hear(const SyncAnswer& answer, const std::string& sent_as);
  void pause(Millis& delay);

  const ChannelOptions options_;
  mutable std::mutex mutex_;  // what is heard counts for the incarnation that it was said to
  NodeIdentity identity_;
  Reconciler& reconciler_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int64_t> answered_at_us_ = 0;  // boot clock; 0: never
  std::thread poller_;
  std::thread reporter_;
};

}  // namespace nodus::executor
