#include "services/lifecycle/config.hpp"

#include <boost/url.hpp>
#include <cstdlib>

namespace nodus::lifecycle {

namespace {

// Quotas are of an organization that has none of its own; limits are of this process.
void read_tenants(config::Reader& in, Config& out) {
  constexpr int64_t kMany = 1'000'000'000'000;
  auto& quotas = out.api.quotas;
  quotas.sandboxes = in.integer("quota.sandboxes", quotas.sandboxes, 0, kMany);
  quotas.cpu_milli = in.integer("quota.cpu", quotas.cpu_milli / 1000, 0, kMany) * 1000;
  quotas.stored_bytes = in.quantity("quota.storedBytes", config::format_bytes(quotas.stored_bytes));
  quotas.creates_per_minute = in.integer("quota.createsPerMinute", quotas.creates_per_minute, 0, kMany);
  auto& limits = out.limits;
  limits.requests_per_s = in.integer("limits.requestsPerSecond", limits.requests_per_s, 1, kMany);
  limits.burst = in.integer("limits.burst", limits.burst, 1, kMany);
  limits.open_per_key = in.integer("limits.openPerKey", limits.open_per_key, 1, kMany);
  limits.open_per_org = in.integer("limits.openPerOrganization", limits.open_per_org, 1, kMany);
  if (const char* token = std::getenv("NODUS_METRICS_TOKEN")) out.metrics_token = token;
  out.audit.spool = in.text("audit.spool", "");
  out.audit.capacity = static_cast<size_t>(
      in.integer("audit.buffer", static_cast<int64_t>(out.audit.capacity), 100, 10'000'000));
}

}  // namespace

Result<Config> read_config(const std::string& path, std::string* printed) {
  auto document = config::load_file(path);
  if (!document) return std::unexpected(std::move(document.error()));
  config::Reader in(*document);
  Config out;
  out.http.listen = in.text("http.listen", "127.0.0.1:7400");
  // A command line of 64 KiB may come in a query, where a byte takes up to three.
  out.http.limits.header_bytes = 224 * 1024;
  out.http.workers = static_cast<int>(in.integer("http.workers", 16, 1, 256));
  out.database.url = in.text("database.url");
  out.database.schema = "lifecycle";
  out.database.application_name = "nodus-lifecycle";
  out.pool = static_cast<int>(in.integer("database.pool", 24, 4, 200));
  out.log_partitions = static_cast<int>(in.integer("log.partitions", 4, 1, 64));
  out.log_level = in.text("log.level", "info");
  out.batcher.workers = static_cast<int>(in.integer("log.workers", 2, 1, 64));
  out.bus.kind = in.choice("bus.kind", {"log", "kafka"}, "log");
  out.bus.kafka_brokers = in.text("bus.kafkaBrokers", "");
  out.bus.partitions = out.log_partitions;
  out.images_dir = in.text("images.directory");
  const std::string metering = in.text("metering.url", "http://127.0.0.1:7402");
  out.api.trigger_patience =
      std::chrono::ceil<Millis>(in.duration("trigger.patience", std::chrono::seconds(1)));
  auto& times = out.api.times;
  times.idle_default = in.duration("spec.idleTimeout", times.idle_default);
  times.idle_min = in.duration("spec.idleTimeoutMin", times.idle_min);
  times.idle_max = in.duration("spec.idleTimeoutMax", times.idle_max);
  times.lifetime_default = in.duration("spec.maxLifetime", times.lifetime_default);
  times.lifetime_min = in.duration("spec.maxLifetimeMin", times.lifetime_min);
  times.lifetime_max = in.duration("spec.maxLifetimeMax", times.lifetime_max);
  times.command_default = in.duration("spec.commandTimeout", times.command_default);
  times.command_max = in.duration("spec.commandTimeoutMax", times.command_max);
  out.api.retry_after_s =
      static_cast<int>(std::chrono::ceil<Seconds>(in.duration("spec.retryAfter", Seconds(2))).count());
  out.deadlines.poll = std::chrono::ceil<Millis>(in.duration("deadlines.poll", Millis(500)));
  out.deadlines.rate_per_s =
      static_cast<int>(in.integer("deadlines.ratePerSecond", out.deadlines.rate_per_s, 10, 1'000'000));
  out.upkeep.poll = out.deadlines.poll;
  out.feed.bookmark = std::chrono::ceil<Seconds>(in.duration("watch.bookmarkInterval", Seconds(60)));
  out.feed.check = std::chrono::ceil<Seconds>(in.duration("watch.checkInterval", Seconds(10)));
  out.feed.watches = static_cast<int>(in.integer("watch.limit", 2048, 4, 100'000));
  out.keeping.age = in.duration("watch.keep", std::chrono::hours(1));
  out.keeping.rows = in.integer("watch.keepChanges", 1'000'000, 100, 1'000'000'000);
  read_tenants(in, out);
  out.keeper.poll = out.deadlines.poll;
  out.keeper.grace = in.duration("processes.reportGrace", out.keeper.grace);
  out.keeper.hand_over = in.duration("processes.handOver", out.keeper.hand_over);
  out.output_directory = in.text("output.directory", "/var/lib/nodus/output");
  out.outputs.process_bytes = static_cast<uint64_t>(in.quantity("output.processBytes", "64Mi"));
  out.outputs.sandbox_bytes = static_cast<uint64_t>(in.quantity("output.sandboxBytes", "1Gi"));
  out.outputs.age = in.duration("output.age", out.outputs.age);
  out.api.node_secret = in.secret("NODUS_NODE_SECRET");
  out.api.identity_secret = in.secret("NODUS_IDENTITY_SECRET");
  out.env_key = in.secret("NODUS_ENV_KEY");
  if (printed) *printed = in.print();
  const auto url = boost::urls::parse_uri(metering);
  if (!url || url->scheme() != "http" || url->port_number() == 0)
    return fail(Code::kInvalid, "ConfigurationInvalid",
                "metering.url: an address such as http://127.0.0.1:7402.");
  out.api.metering_host = url->host_address();
  out.api.metering_port = url->port_number();
  if (auto faults = in.finish(); !faults) return std::unexpected(std::move(faults.error()));
  return out;
}

}  // namespace nodus::lifecycle
