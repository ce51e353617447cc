#include "services/lifecycle/service.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "libs/base/random.hpp"
#include "libs/base/signals.hpp"
#include "libs/eventlog/postgres_log.hpp"
#include "libs/telemetry/log.hpp"
#include "services/lifecycle/adapters/audit.hpp"
#include "services/lifecycle/adapters/change_feed.hpp"
#include "services/lifecycle/adapters/changes.hpp"
#include "services/lifecycle/adapters/directory_output_store.hpp"
#include "services/lifecycle/adapters/environment.hpp"
#include "services/lifecycle/adapters/inputs.hpp"
#include "services/lifecycle/adapters/limits.hpp"
#include "services/lifecycle/adapters/node_path.hpp"
#include "services/lifecycle/adapters/oci_images.hpp"
#include "services/lifecycle/adapters/open_streams.hpp"
#include "services/lifecycle/adapters/postgres_catalog.hpp"
#include "services/lifecycle/adapters/tenant_keeper.hpp"
#include "services/lifecycle/adapters/tenants.hpp"
#include "services/lifecycle/app/sandboxes.hpp"

namespace nodus::lifecycle {

namespace {

constexpr int kMissing = 2;  // exit code: a dependency or the configuration

int complain(const Error& error, int code) {
  fmt::print(stderr, "nodus-lifecycle: {}\n", error.message);
  return code;
}

bus::Route route_of(const std::string& topic, const Clock& clock) {
  return [topic, &clock](const bus::Message& message) {
    return topic == "scheduler" ? from_scheduler(message, clock.now()) : from_metering(message, clock.now());
  };
}

std::unique_ptr<bus::Consumer> consume(const std::string& topic, const Config& config,
                                       eventlog::EventLog& log, pg::Pool& pool, const Clock& clock) {
  auto open = [&config, topic](bus::OffsetOf offset_of) {
    return bus::make_source(config.bus, topic, "nodus-lifecycle", config.database, std::move(offset_of));
  };
  return bus::make_consumer(topic, std::move(open), log, pool, route_of(topic, clock));
}

}  // namespace

int serve(const Config& config) {
  log::init("lifecycle", config.log_level);
  const SystemClock clock;
  pg::Pool pool(config.database, config.pool);
  if (auto ranges = eventlog::ensure_ranges(pool); !ranges) return complain(ranges.error(), kMissing);
  auto events = eventlog::make_postgres_log(clock, pool, config.log_partitions);
  if (!events) return complain(events.error(), kMissing);

  http::Waiters waiters;
  auto relay = bus::make_relay(config.bus, "lifecycle", **events, config.database);
  if (!relay) return complain(relay.error(), kMissing);
  eventlog::Batcher batcher(**events, config.batcher);
  Deadlines deadlines(batcher, pool, clock, config.deadlines);
  PostgresCatalog catalog(**events, pool);
  ChangeFeed feed(catalog, waiters, config.feed);
  (*events)->on_commit([&](const std::vector<eventlog::Recorded>& recorded) {
    (*relay)->nudge();
    for (const auto& event : recorded) waiters.notify(event.stream);
    deadlines.changed(recorded);
    feed.nudge();
  });
  (*events)->on_append(
      [&](pg::Tx& tx, std::vector<std::any>& notes) { write_changes(tx, notes, clock.now()); });
  OciImages images(config.images_dir);
  Keys keys(pool, clock);
  auto environment = SealedEnvironment::make(config.env_key);
  if (!environment) return complain(environment.error(), kMissing);
  Tenants tenants(pool, clock);
  Limits limits(clock, config.limits);
  OpenStreams open_streams(keys);
  AuditLog audit(pool, config.audit);
  if (auto started = audit.start(); !started) return complain(started.error(), kMissing);
  Sandboxes sandboxes(batcher, catalog, images, *environment, clock, config.api.quotas);
  auto outputs = make_directory_output_store(config.output_directory, config.outputs);
  if (!outputs) return complain(outputs.error(), kMissing);
  Api api{sandboxes, catalog, keys,   batcher, feed,         **outputs, waiters,
          clock,     tenants, limits, audit,   open_streams, config.api};

  http::Server server(config.http);
  dispatch_routes(server, api);
  node_routes(server, api);
  activity_routes(server, api);
  const auto ready = [&] {
    return pool.with_tx([](pg::Tx& tx) -> Result<void> {
      tx.exec1("SELECT 1");
      return {};
    });
  };
  server.health_routes(ready, config.metrics_token);
  if (auto started = server.start(); !started) return complain(started.error(), kMissing);

  auto from_scheduler_topic = consume("scheduler", config, **events, pool, clock);
  auto from_metering_topic = consume("metering", config, **events, pool, clock);
  auto tenant_keeper = std::make_unique<TenantKeeper>(batcher, pool, clock, open_streams);
  tenant_keeper->start();
  auto upkeep = std::make_unique<Upkeep>(pool, clock, config.upkeep);
  auto change_keeper = std::make_unique<ChangeKeeper>(batcher, pool, clock, config.keeping);
  auto process_keeper = std::make_unique<ProcessKeeper>(
      batcher, pool, catalog, **outputs, clock, refuse_at_node(api.options.node_secret), config.keeper);
  deadlines.start();
  log::info("service.started", {{"port", int64_t{server.port()}}, {"bus", config.bus.kind}});

  const int signal = wait_for_termination();
  log::info("service.draining", {{"signal", int64_t{signal}}});
  feed.close();
  server.stop();
  tenant_keeper.reset();
  process_keeper.reset();
  upkeep.reset();
  change_keeper.reset();
  deadlines.stop();
  from_scheduler_topic->stop();
  from_metering_topic->stop();
  return 0;
}

int write_key_file(const std::string& key_file, const std::string& key) {
  const int fd = open(key_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const std::string line = key + "\n";
  const bool written = fd >= 0 && write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (fd >= 0) close(fd);
  if (written) return 0;
  fmt::print(stderr, "nodus-lifecycle: the key cannot be written to {}.\n", key_file);
  return 1;
}

int bootstrap(const Config& config, const std::string& org, const std::string& project,
              const std::string& key_file) {
  const SystemClock clock;
  pg::Pool pool(config.database, 1);
  Tenants tenants(pool, clock);
  std::string key;
  if (std::ifstream file(key_file); file) std::getline(file, key);
  const bool fresh = key.empty();
  if (fresh) key = new_secret();
  if (auto done = tenants.bootstrap(OrgId(org), project, key); !done) return complain(done.error(), 1);
  if (!fresh) return 0;
  return write_key_file(key_file, key);
}

int parked_list(const Config& config) {
  pg::Pool pool(config.database, 1);
  auto parked = bus::list_parked(pool, 1000);
  if (!parked) return complain(parked.error(), 1);
  fmt::print("{:<10} {:<48} {:>8}  {:<40} {}\n", "TOPIC", "STREAM", "VERSION", "TYPE", "ERROR");
  for (const auto& p : *parked)
    fmt::print("{:<10} {:<48} {:>8}  {:<40} {}\n", p.message.topic, p.message.stream, p.message.version,
               p.message.type, p.error);
  return 0;
}

int parked_replay(const Config& config, const std::string& topic, const std::string& stream) {
  const SystemClock clock;
  pg::Pool pool(config.database, 2);
  auto events = eventlog::make_postgres_log(clock, pool, config.log_partitions);
  if (!events) return complain(events.error(), kMissing);
  auto applied = bus::replay_parked(**events, pool, route_of(topic, clock), topic, stream);
  if (!applied) return complain(applied.error(), 1);
  fmt::print("{} applied\n", *applied);
  return 0;
}

int parked_skip(const Config& config, const std::string& topic, const std::string& stream) {
  pg::Pool pool(config.database, 1);
  auto skipped = bus::skip_parked(pool, topic, stream);
  if (!skipped) return complain(skipped.error(), 1);
  fmt::print("{} skipped\n", *skipped);
  return 0;
}

}  // namespace nodus::lifecycle
