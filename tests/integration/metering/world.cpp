#include "tests/integration/metering/world.hpp"

#include <thread>

#include "nodus/scheduler/v1/events.pb.h"
#include "tests/support/postgres_fixture.hpp"

namespace nodus::metering::test {

namespace {

constexpr int kPartitions = 4;
namespace pb = nodus::scheduler::v1;

int64_t micros(double seconds) {
  return kT0 * 1'000'000 + static_cast<int64_t>(seconds * 1e6);
}

template <class Message>
Message about(const std::string& uid, int64_t start, const std::string& org = "acme") {
  Message message;
  auto* slot = message.mutable_slot();
  slot->set_sandbox_uid(uid);
  slot->set_start(start);
  slot->set_epoch(start);
  slot->set_org(org);
  slot->set_project("web");
  return message;
}

std::string make_database() {
  const auto url = nodus::test::fresh_database(nodus::test::migrations_of("metering"), "metering");
  nodus::test::add_schema(url, nodus::test::log_files({"libs/bus/sql/inbox.sql"}), "scheduler");
  return url;
}

pg::ConnectOptions options(const std::string& url, const std::string& schema) {
  return {.url = url, .schema = schema, .application_name = "test-" + schema};
}

}  // namespace

bool eventually(const std::function<bool()>& condition, Seconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(Millis(5));
  }
  return true;
}

Scheduler::Scheduler(const std::string& url, const Clock& clock)
    : database_(options(url, "scheduler")),
      pool_(database_, 2),
      log_(eventlog::make_postgres_log(clock, pool_, kPartitions).value()) {}

void Scheduler::raw(const std::string& stream, std::string type, std::string payload) {
  const std::vector<eventlog::Work> works = {
      {.streams = {stream}, .decide = [&](eventlog::Unit& unit) -> Result<std::string> {
         unit.append(stream, {{type, payload}}, "", 1);
         return "";
       }}};
  const auto answer = log_->run(works).front();
  ASSERT_TRUE(answer) << answer.error().message;
}

template <class Message>
void Scheduler::publish(const Message& message) {
  raw("slot/" + message.slot().sandbox_uid(), Message::descriptor()->full_name(),
      message.SerializeAsString());
}

void Scheduler::offer(const std::string& uid, int64_t start, const std::string& max_cost,
                      const std::string& org, bool recovery) {
  auto message = about<pb::SlotOffered>(uid, start, org);
  message.set_recovery(recovery);
  message.mutable_shape()->set_cpu_milli(1000);
  message.set_sandbox_name("box-" + uid);
  message.set_max_cost_usd(max_cost);
  publish(message);
}

void Scheduler::raise(const std::string& uid, int64_t start, const std::string& max_cost, double at) {
  auto message = about<pb::MaxCostRaised>(uid, start);
  message.set_max_cost_usd(max_cost);
  message.set_at_us(micros(at));
  publish(message);
}

void Scheduler::lapse(const std::string& uid, int64_t start, double at) {
  auto message = about<pb::OfferLapsed>(uid, start);
  message.set_at_us(micros(at));
  publish(message);
}

void Scheduler::reserve(const std::string& uid, int64_t start, double reserved) {
  auto message = about<pb::SlotReserved>(uid, start);
  message.mutable_times()->set_reserved_at_us(micros(reserved));
  publish(message);
}

void Scheduler::started(const std::string& uid, int64_t start, double reserved, double started) {
  auto message = about<pb::SandboxStarted>(uid, start);
  message.mutable_times()->set_reserved_at_us(micros(reserved));
  message.mutable_times()->set_started_at_us(micros(started));
  publish(message);
}

void Scheduler::stopping(const std::string& uid, int64_t start, double reserved, double started,
                         double stopping) {
  auto message = about<pb::SlotStopping>(uid, start);
  message.mutable_times()->set_reserved_at_us(micros(reserved));
  message.mutable_times()->set_started_at_us(micros(started));
  message.mutable_times()->set_stopping_at_us(micros(stopping));
  publish(message);
}

void Scheduler::decline(const std::string& uid, int64_t start, double last_activity) {
  auto message = about<pb::StopDeclined>(uid, start);
  message.set_last_activity_at_us(micros(last_activity));
  publish(message);
}

void Scheduler::release(const std::string& uid, int64_t start, double reserved, double started,
                        double stopping, double released) {
  auto message = about<pb::SlotReleased>(uid, start);
  auto* times = message.mutable_times();
  times->set_reserved_at_us(micros(reserved));
  times->set_started_at_us(micros(started));
  times->set_stopping_at_us(micros(stopping));
  times->set_released_at_us(micros(released));
  publish(message);
}

void Scheduler::save(const std::string& uid, int64_t start, double reserved, double released, int64_t saved,
                     bool deleted) {
  auto message = about<pb::SlotReleased>(uid, start);
  message.mutable_times()->set_reserved_at_us(micros(reserved));
  message.mutable_times()->set_released_at_us(micros(released));
  if (saved >= 0) message.mutable_restore_point()->set_size_bytes(saved);
  if (deleted) message.set_stop_reason(nodus::common::v1::STOP_REASON_DELETE);
  publish(message);
}

void Scheduler::drop(const std::string& uid, int64_t start, double at) {
  auto message = about<pb::RestorePointReleased>(uid, start);
  message.set_at_us(micros(at));
  publish(message);
}

int64_t Scheduler::published() const {
  int64_t sum = 0;
  for (int partition = 0; partition < kPartitions; ++partition) sum += log_->last_position(partition).value();
  return sum;
}

World::World() : World(make_database()) {
  // 1 vCPU costs 9 pico-dollars a second; its hold is 675.
  // So does a GiB that is stored.
  text("INSERT INTO prices VALUES ('test', 0, 0.000000000008, 0, 0, 0, 0.000000000008) RETURNING version");
}

World::World(const std::string& existing)
    : url(existing),
      database(options(url, "metering")),
      pool(database, 10),
      log(eventlog::make_postgres_log(clock, pool, kPartitions).value()),
      projections(*log),
      rows(pool),
      works(clock, Durations(), lookups, projections),
      scheduler(url, clock),
      deadlines(std::make_unique<Deadlines>(clock, *log, works, rows, watermark)) {
  EXPECT_TRUE(eventlog::ensure_ranges(pool));
}

void World::credit(const std::string& amount, const std::string& id, const std::string& org) {
  const std::vector all = {
      works.on_account(PostCredit{OrgId(org), id, "Grant", Money::parse(amount).value(), "test"})};
  const auto answer = log->run(all).front();
  ASSERT_TRUE(answer) << answer.error().message;
}

void World::put_budget(const std::string& name, Money limit, bool create) {
  const std::vector put = {works.on_budget(PutBudget{OrgId("acme"),
                                                     ProjectId("web"),
                                                     name,
                                                     "uid-" + name,
                                                     {limit, budget::Period::kTotal, {50, 80, 100}},
                                                     "test",
                                                     create})};
  const auto answer = log->run(put).front();
  ASSERT_TRUE(answer) << answer.error().message;
}

void World::consume() {
  auto open = [this](bus::OffsetOf offset_of) -> Result<std::unique_ptr<bus::Source>> {
    auto source = bus::make_source({.partitions = kPartitions}, kSchedulerTopic, "nodus-metering", database,
                                   std::move(offset_of));
    if (!source) return source;
    return watched(std::move(*source), clock, watermark);
  };
  consumer_ = bus::make_consumer(kSchedulerTopic, open, *log, pool, scheduler_route(works),
                                 {.max_batch = 64, .poll = Millis(20)});
}

void World::await_all() {
  EXPECT_TRUE(eventually([this] {
    return count("SELECT coalesce(sum(position), 0) FROM consumer_offsets") == scheduler.published();
  }));
}

void World::at(double seconds) {
  const auto target = to_instant(kT0) + Micros(static_cast<int64_t>(seconds * 1e6));
  ASSERT_GE(target, clock.now());
  clock.advance(std::chrono::duration_cast<Micros>(target - clock.now()));
}

void World::run_deadlines() {
  watermark.reached(clock.now());
  for (int turn = 0; turn < 5; ++turn) {
    const auto more = deadlines->run_due();
    ASSERT_TRUE(more) << more.error().message;
  }
}

void World::forget_prices() {
  const auto done = pool.with_tx([](pg::Tx& tx) -> Result<void> {
    tx.exec("ALTER TABLE prices DISABLE TRIGGER USER");
    tx.exec("DELETE FROM prices");
    tx.exec("ALTER TABLE prices ENABLE TRIGGER USER");
    return {};
  });
  ASSERT_TRUE(done) << done.error().message;
}

std::vector<std::string> World::events(const std::string& stream) {
  std::vector<std::string> names;
  const auto page = log->read_stream(stream, 0, 1'000);
  for (const auto& event : page.value()) names.push_back(event.type.substr(event.type.rfind('.') + 1));
  return names;
}

int64_t World::count(const std::string& sql) {
  return std::stoll(text(sql));
}

std::string World::text(const std::string& sql) {
  return pool
      .with_tx([&](pg::Tx& tx) -> Result<std::string> { return std::string(tx.exec1(sql)[0].c_str()); })
      .value();
}

testing::AssertionResult World::audited() {
  const auto checks = audit(pool, *log);
  if (!checks) return testing::AssertionFailure() << checks.error().message;
  for (const auto& check : *checks) {
    if (check.faults > 0)
      return testing::AssertionFailure() << check.name << ": " << check.faults << ", " << check.example;
  }
  return testing::AssertionSuccess();
}

}  // namespace nodus::metering::test
