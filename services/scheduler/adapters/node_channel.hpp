// POST /node/v1/sync: the node's long poll (schemas/nodus/node/v1/channel.proto). Bearer node token.
#pragma once

#include <atomic>
#include <string>

#include "libs/http/server.hpp"
#include "services/scheduler/app/node_syncs.hpp"

namespace nodus::scheduler {

struct NodeChannelOptions {
  std::string node_secret;
  Micros lease = Seconds(30);
  Micros poll = Seconds(5);
};

class NodeChannel {
 public:
  NodeChannel(const Clock& clock, NodeSyncs& syncs, Fleet& fleet, NodeChannelOptions options)
      : clock_(clock), syncs_(syncs), fleet_(fleet), options_(std::move(options)) {}

  http::Route route();
  // After each commit: answers the polls of the machines whose desired state it may have changed.
  void committed(const std::vector<eventlog::Recorded>& events);
  void drain();  // polls answer at once from now on

 private:
  boost::asio::awaitable<void> serve(http::Exchange& exchange);
  boost::asio::awaitable<Result<MachineRow>> exchange_states(http::Exchange& exchange, const NodeSync& sync);

  const Clock& clock_;
  NodeSyncs& syncs_;
  Fleet& fleet_;
  const NodeChannelOptions options_;
  http::Waiters waiters_;
  std::atomic<bool> draining_{false};
};

}  // namespace nodus::scheduler
