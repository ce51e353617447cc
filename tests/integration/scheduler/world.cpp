#include "tests/integration/scheduler/world.hpp"

#include "libs/eventlog/aggregate.hpp"
#include "services/scheduler/adapters/codec/codec.hpp"
#include "tests/support/postgres_fixture.hpp"

namespace nodus::scheduler::test {

std::string fresh_database() {
  return nodus::test::fresh_database(nodus::test::migrations_of("scheduler"), "scheduler");
}

pg::ConnectOptions connect_options(const std::string& url) {
  pg::ConnectOptions options;
  options.url = url;
  options.schema = "scheduler";
  options.application_name = "test";
  return options;
}

Order order(const std::string& uid, int64_t start, const std::string& org) {
  Order o;
  o.sandbox = SandboxUid(uid);
  o.start = start;
  o.org = OrgId(org);
  o.project = ProjectId("web");
  o.name = uid;
  o.image = "nodus/agent-tools";
  o.shape = {1000, 1 << 30, 1 << 30};
  o.continuity_mode = "Snapshotted";
  return o;
}

Node::Node(const std::string& id, int64_t cpus) {
  sync.machine = MachineId(id);
  sync.org = OrgId("acme");
  sync.incarnation = "boot-1";
  sync.data_path = "10.0.0.1:7410";
  sync.capacity = {cpus * 1000, cpus << 30, cpus << 30};
  sync.runtime = "runsc";
}

void Node::hears(const MachineRow& told) {
  sync.seen_version = told.version;
  std::vector<NodeSync::Slot> kept;
  for (const auto& row : told.slots) {
    const auto have = std::find_if(sync.slots.begin(), sync.slots.end(), [&](const auto& s) {
      return s.sandbox == row.sandbox && s.report.epoch == row.epoch;
    });
    if (have != sync.slots.end()) {
      kept.push_back(*have);
      continue;
    }
    Report report;
    report.machine = sync.machine;
    report.epoch = row.epoch;
    report.says = NodeSays::kStarting;
    report.runtime = sync.runtime;
    kept.push_back({row.sandbox, report});
  }
  sync.slots = std::move(kept);
}

Node& Node::says(const std::string& uid, NodeSays what) {
  for (auto& slot : sync.slots)
    if (slot.sandbox.str() == uid) slot.report.says = what;
  return *this;
}

Node& Node::all_say(NodeSays what) {
  for (auto& slot : sync.slots) slot.report.says = what;
  return *this;
}

Node& Node::declines(const std::string& uid, Instant idle_since) {
  for (auto& slot : sync.slots)
    if (slot.sandbox.str() == uid) slot.report.declined = idle_since;
  return says(uid, NodeSays::kDeclined);
}

Node& Node::forgets(const std::string& uid) {
  std::erase_if(sync.slots, [&](const auto& slot) { return slot.sandbox.str() == uid; });
  return *this;
}

Node& Node::reboots() {
  sync.incarnation += "+";
  sync.slots.clear();
  sync.seen_version = 0;
  return *this;
}

World::World(const std::string& at, SharedLimit shared)
    : url(at),
      pool(connect_options(url), 8),
      log(std::move(*eventlog::make_postgres_log(clock, pool, kPartitions))),
      rows(make_read_model(pool)),
      fleet(clock, Seconds(30)),
      slots(clock, *log, *rows, fleet, {Seconds(60), 100, std::move(shared)}),
      syncs(clock, *log, *rows, slots, fleet, {}, Seconds(30), [this] { ++room_came; }),
      placer(*log, *rows, slots),
      expiry(clock, *log, *rows, slots) {}

std::string World::send(const std::string& uid, const SlotCommand& command) {
  return send_together({{uid, command}}).front();
}

std::vector<std::string> World::send_together(
    const std::vector<std::pair<std::string, SlotCommand>>& commands) {
  std::vector<eventlog::Work> works;
  for (const auto& [uid, command] : commands) works.push_back(*slots.work(SandboxUid(uid), command));
  auto results = log->run_together(works, [](pg::Tx&) {});
  if (!results) return std::vector<std::string>(commands.size(), results.error().reason);
  std::vector<std::string> out;
  for (const auto& result : *results) out.push_back(result ? *result : result.error().reason);
  return out;
}

std::string World::plan(const std::string& uid, int64_t start, const std::string& org) {
  return send(uid, PlanStart{order(uid, start, org)});
}

MachineRow World::synced(Node& node) {
  auto row = syncs.apply(node.sync);
  if (!row) throw std::runtime_error(row.error().reason + ": " + row.error().message);
  fleet.told(*row);
  node.hears(*row);
  return *row;
}

SlotState World::slot(const std::string& uid) {
  return *slots.state(SandboxUid(uid));
}

std::vector<std::string> World::types(const std::string& uid) {
  std::vector<std::string> out;
  for (const auto& event : *log->read_stream("slot/" + uid, 0, 500))
    out.push_back(event.type.substr(event.type.rfind('.') + 1));
  return out;
}

SlotEvent World::last_event(const std::string& uid) {
  const auto events = *log->read_stream("slot/" + uid, 0, 500);
  return *SlotCodec::decode(events.back().type, events.back().payload);
}

int64_t World::positions() {
  int64_t sum = 0;
  for (int i = 0; i < kPartitions; ++i) sum += *log->last_position(i);
  return sum;
}

int64_t World::count(const std::string& table) {
  return *pool.with_tx([&](pg::Tx& tx) -> Result<int64_t> {
    return tx.exec1("SELECT count(*) FROM " + table)[0].as<int64_t>();
  });
}

void World::expect_rebuilds(const std::string& uid) {
  const auto rebuilt = eventlog::rebuild<SlotAggregate, SlotCodec>(*log, "slot/" + uid);
  ASSERT_TRUE(rebuilt) << rebuilt.error().message;
  EXPECT_EQ(*rebuilt, slot(uid)) << uid;
}

node::v1::DesiredSlot desired(const MachineRow& row, size_t index) {
  node::v1::DesiredSlot m;
  EXPECT_TRUE(row.slots.size() > index && m.ParseFromString(row.slots[index].desired));
  return m;
}

void running(World& w, Node& node, const std::string& uid, int64_t start) {
  w.plan(uid, start);
  w.send(uid, Fund{start});
  w.synced(node);
  node.says(uid, NodeSays::kRunning);
  w.synced(node);
  ASSERT_EQ(w.phase(uid), Phase::kStarted);
}

}  // namespace nodus::scheduler::test
