// The scheduler's use cases on a real PostgreSQL, with a clock that moves when told and a node made of
// values.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libs/eventlog/postgres_log.hpp"
#include "nodus/node/v1/channel.pb.h"
#include "services/scheduler/adapters/read_model.hpp"
#include "services/scheduler/app/expiry.hpp"
#include "services/scheduler/app/node_syncs.hpp"
#include "services/scheduler/app/placer.hpp"

namespace nodus::scheduler::test {

inline constexpr int kPartitions = 4;
std::string fresh_database();  // with the scheduler's schema
pg::ConnectOptions connect_options(const std::string& url);

Order order(const std::string& uid, int64_t start = 1, const std::string& org = "acme");

// What a machine would do, in memory.
class Node {
 public:
  explicit Node(const std::string& id = "m1", int64_t cpus = 4);
  // Takes over what it is told, as a real node does: slots that it shall run come up as STARTING.
  void hears(const MachineRow& told);
  Node& says(const std::string& uid, NodeSays what);
  Node& all_say(NodeSays what);
  Node& declines(const std::string& uid, Instant idle_since);
  Node& forgets(const std::string& uid);
  Node& reboots();

  NodeSync sync;
};

class World {
 public:
  explicit World(const std::string& url = fresh_database(), SharedLimit shared = {});

  // Each runs one command as the bus would, and answers what it came to.
  std::string plan(const std::string& uid, int64_t start = 1, const std::string& org = "acme");
  std::string send(const std::string& uid, const SlotCommand& command);
  std::vector<std::string> send_together(const std::vector<std::pair<std::string, SlotCommand>>& commands);
  MachineRow synced(Node& node);  // a sync as the node stands, and what it hears
  void run_placer() { placer.step(); }

  Phase phase(const std::string& uid) { return slot(uid).phase; }
  SlotState slot(const std::string& uid);
  std::vector<std::string> types(const std::string& uid);  // of its stream, without the package
  SlotEvent last_event(const std::string& uid);
  int64_t positions();  // appended so far, in all partitions
  int64_t count(const std::string& table);
  void expect_rebuilds(const std::string& uid);  // replaying the stream gives the head's state

  std::string url;
  ManualClock clock;
  pg::Pool pool;
  std::unique_ptr<eventlog::EventLog> log;
  std::unique_ptr<ReadModel> rows;
  Fleet fleet;
  Slots slots;
  int room_came = 0;
  NodeSyncs syncs;
  Placer placer;
  Expiry expiry;
};

node::v1::DesiredSlot desired(const MachineRow& row, size_t index = 0);
void running(World& w, Node& node, const std::string& uid, int64_t start = 1);  // brings a start up

}  // namespace nodus::scheduler::test
