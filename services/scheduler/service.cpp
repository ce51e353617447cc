#include "services/scheduler/service.hpp"

#include "libs/deadlines/loop.hpp"
#include "libs/eventlog/postgres_log.hpp"
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"
#include "services/scheduler/adapters/codec/codec.hpp"
#include "services/scheduler/adapters/inputs.hpp"
#include "services/scheduler/adapters/read_model.hpp"
#include "services/scheduler/app/expiry.hpp"
#include "services/scheduler/app/placer.hpp"

namespace nodus::scheduler {
namespace {

constexpr Millis kRangesEvery = std::chrono::hours(1);
const std::string kTopic = "scheduler";

// A start began to wait: room that came between its decision and now would be missed by the wait for room.
bool began_to_wait(const eventlog::Recorded& event) {
  if (event.type != "nodus.scheduler.v1.SlotPlanned") return false;
  const auto decoded = SlotCodec::decode(event.type, event.payload);
  return decoded && std::holds_alternative<Waiting>(*decoded);
}

}  // namespace

// In the order of construction; the destructor ends them in the other direction.
struct Service::Parts {
  Parts(const Config& c, const Clock& clock_in, std::unique_ptr<pg::Pool> pool_in,
        std::unique_ptr<eventlog::EventLog> log_in)
      : config(c),
        clock(clock_in),
        pool(std::move(pool_in)),
        log(std::move(log_in)),
        rows(make_read_model(*pool)),
        fleet(clock, c.channel.lease),
        slots(clock, *log, *rows, fleet, c.slots),
        syncs(clock, *log, *rows, slots, fleet, c.fleet, c.channel.lease, [this] { room_came(); }),
        channel(clock, syncs, fleet, c.channel),
        placer(*log, *rows, slots),
        expiry(clock, *log, *rows, slots),
        place_loop([this] { return placer.step(); }),
        expiry_loop([this] { return expiry.step(); }),
        ranges_loop([this] { return make_ranges(); }),
        server(c.http) {}

  void room_came() { place_loop.nudge(); }

  Millis make_ranges() {
    if (auto made = eventlog::ensure_ranges(*pool); !made)
      log::warn("ranges_failed", {{"error", made.error().message}});
    return kRangesEvery;
  }

  void committed(const std::vector<eventlog::Recorded>& events) {
    relay->nudge();
    channel.committed(events);
    if (std::any_of(events.begin(), events.end(), began_to_wait)) room_came();
  }

  Result<void> ready() {
    return pool->with_tx([](pg::Tx& tx) -> Result<void> {
      tx.exec1("SELECT 1");
      return {};
    });
  }

  std::unique_ptr<bus::Consumer> consume(const std::string& topic) {
    auto open = [this, topic](bus::OffsetOf offset_of) {
      return bus::make_source(config.bus, topic, "nodus-scheduler", config.database, std::move(offset_of));
    };
    return bus::make_consumer(topic, std::move(open), *log, *pool, make_route(topic, slots));
  }

  const Config config;
  const Clock& clock;
  std::unique_ptr<pg::Pool> pool;
  std::unique_ptr<eventlog::EventLog> log;
  std::unique_ptr<ReadModel> rows;
  Fleet fleet;
  Slots slots;
  NodeSyncs syncs;
  NodeChannel channel;
  Placer placer;
  Expiry expiry;
  std::unique_ptr<bus::Relay> relay;
  deadlines::Loop place_loop, expiry_loop, ranges_loop;
  std::unique_ptr<bus::Consumer> lifecycle, metering;
  std::shared_ptr<void> unpublished_age, transaction_age, live_machines;
  http::Server server;
};

namespace {

void register_gauges(auto& p) {
  p.unpublished_age = metrics::gauge_callback(
      "nodus_bus_oldest_unpublished_seconds", "Age of the oldest event that is not published",
      [&p] { return static_cast<double>(p.relay->oldest_unpublished().count()) / 1e6; });
  p.transaction_age = metrics::gauge_callback(
      "nodus_eventlog_oldest_transaction_seconds", "Age of this service's oldest transaction", [&p] {
        const auto ages = p.log->ages();
        return ages ? static_cast<double>(ages->oldest_transaction.count()) / 1e6 : -1.0;
      });
  p.live_machines = metrics::gauge_callback("nodus_scheduler_machines_live", "Machines with a live lease",
                                            [&p] { return static_cast<double>(p.fleet.live_count()); });
}

}  // namespace

Result<std::unique_ptr<Service>> Service::start(const Config& config, const Clock& clock) {
  auto pool = std::make_unique<pg::Pool>(config.database, config.database_pool);
  auto log = eventlog::make_postgres_log(clock, *pool, config.bus.partitions);
  if (!log) return std::unexpected(std::move(log.error()));
  auto parts = std::make_unique<Parts>(config, clock, std::move(pool), std::move(*log));
  Parts& p = *parts;
  auto relay = bus::make_relay(config.bus, kTopic, *p.log, config.database);
  if (!relay) return std::unexpected(std::move(relay.error()));
  p.relay = std::move(*relay);
  p.log->on_commit([&p](const std::vector<eventlog::Recorded>& events) { p.committed(events); });
  register_gauges(p);

  p.server.route(p.channel.route());
  p.server.health_routes([&p] { return p.ready(); });
  auto service = std::unique_ptr<Service>(new Service(std::move(parts)));
  for (auto* loop : {&p.place_loop, &p.expiry_loop, &p.ranges_loop}) loop->start();
  if (auto started = p.server.start(); !started) return std::unexpected(std::move(started.error()));
  p.lifecycle = p.consume("lifecycle");
  p.metering = p.consume("metering");
  if (config.fleet.machines.empty())
    log::warn("registration_open", {{"meaning", std::string("any machine with a node token may register; "
                                                            "scheduler.machines would say which")}});
  log::info("started", {{"port", static_cast<int64_t>(p.server.port())}, {"bus", config.bus.kind}});
  return service;
}

Service::Service(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Service::~Service() {
  Parts& p = *parts_;
  p.channel.drain();
  p.server.stop();
  p.lifecycle.reset();
  p.metering.reset();
  for (auto* loop : {&p.expiry_loop, &p.place_loop, &p.ranges_loop}) loop->stop();
}

int Service::port() const {
  return parts_->server.port();
}

}  // namespace nodus::scheduler
