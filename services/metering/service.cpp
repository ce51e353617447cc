#include "services/metering/service.hpp"

#include "libs/base/signals.hpp"
#include "libs/eventlog/postgres_log.hpp"
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"
#include "services/metering/adapters/http/bill_route.hpp"
#include "services/metering/adapters/http/budget_route.hpp"
#include "services/metering/adapters/http/export_route.hpp"
#include "services/metering/adapters/http/invoice_routes.hpp"
#include "services/metering/adapters/http/money_routes.hpp"
#include "services/metering/adapters/http/operator_routes.hpp"
#include "services/metering/adapters/inputs.hpp"
#include "services/metering/adapters/postgres/deadline_rows.hpp"
#include "services/metering/adapters/postgres/read_models.hpp"
#include "services/metering/adapters/sealer.hpp"

namespace nodus::metering {

namespace {

constexpr int kMissing = 2;

double seconds(Micros micros) {
  return std::chrono::duration<double>(micros).count();
}

std::unique_ptr<bus::Consumer> consume(const Config& config, const Clock& clock, eventlog::EventLog& log,
                                       pg::Pool& pool, Works& works, Watermark& watermark) {
  auto open = [&config, &clock, &watermark](bus::OffsetOf offset_of) -> Result<std::unique_ptr<bus::Source>> {
    auto source = bus::make_source(config.bus, kSchedulerTopic, "nodus-metering", config.database,
                                   std::move(offset_of));
    if (!source) return source;
    return watched(std::move(*source), clock, watermark);
  };
  return bus::make_consumer(kSchedulerTopic, std::move(open), log, pool, scheduler_route(works));
}

}  // namespace

int serve(const Config& config) {
  log::init("metering", config.log_level);
  const SystemClock clock;
  pg::Pool pool(config.database, config.pool);
  if (auto ranges = eventlog::ensure_ranges(pool); !ranges) return complain(ranges.error(), kMissing);
  auto events = eventlog::make_postgres_log(clock, pool, config.log_partitions);
  if (!events) return complain(events.error(), kMissing);

  PostgresLookups lookups;
  PostgresProjections projections(**events);
  PostgresDeadlineRows rows(pool);
  Watermark watermark;
  Works works(clock, config.durations, lookups, projections);
  Deadlines deadlines(clock, **events, works, rows, watermark, config.deadlines);

  auto relay = bus::make_relay(config.bus, "metering", **events, config.database);
  if (!relay) return complain(relay.error(), kMissing);
  http::Waiters waiters;
  (*events)->on_commit([&](const std::vector<eventlog::Recorded>& recorded) {
    (*relay)->nudge();
    deadlines.wake();
    for (const auto& event : recorded)
      if (event.stream.starts_with("budget/")) waiters.notify(event.stream);
  });
  const auto oldest = metrics::gauge_callback("nodus_log_oldest_transaction_seconds",
                                              "Age of the oldest transaction of this service", [&] {
                                                const auto ages = (*events)->ages();
                                                return ages ? seconds(ages->oldest_transaction) : -1;
                                              });
  const auto lag = metrics::gauge_callback("nodus_metering_watermark_age_seconds",
                                           "How far behind the scheduler's facts may be",
                                           [&] { return seconds(clock.now() - watermark.at()); });

  const auto brake = metrics::gauge_callback("nodus_metering_brake", "1 while stops for money are suspended",
                                             [&] { return deadlines.braked() ? 1.0 : 0.0; });

  http::Server server(config.http);
  const BillDeps bill{clock, pool, config.identity_secret, config.invoice_issuer};
  bill_routes(server, bill);
  invoice_routes(server, bill);
  export_routes(server, bill);
  const MoneyDeps money{
      clock, pool, **events, works, config.durations, config.identity_secret, config.stripe_secret};
  money_routes(server, money);
  const OperatorDeps by_operator{money, config.price_lead, config.operator_token};
  operator_routes(server, by_operator);
  const BudgetDeps budgets{clock, pool, **events, works, config.identity_secret, waiters};
  budget_routes(server, budgets);
  server.health_routes([&] {
    return pool.with_tx([](pg::Tx& tx) -> Result<void> {
      tx.exec1("SELECT 1");
      return {};
    });
  });
  if (auto started = server.start(); !started) return complain(started.error(), kMissing);
  const auto held = rows.brake();  // before the first fact is judged
  if (!held) return complain(held.error(), kMissing);
  works.set_brake(held->on);
  auto consumer = consume(config, clock, **events, pool, works, watermark);
  deadlines.start();
  Sealer sealer(clock, pool);
  sealer.start();
  log::info("service.started", {{"port", int64_t{server.port()}}, {"bus", config.bus.kind}});

  const int signal = wait_for_termination();
  log::info("service.draining", {{"signal", int64_t{signal}}});
  server.stop();
  // Both commit, and each commit nudges the relay: they end before it does.
  consumer->stop();
  deadlines.stop();
  sealer.stop();
  return 0;
}

}  // namespace nodus::metering
