// The figures of the deadline service: what a million armed deadlines take, how fast the wheel fires, how
// many a second are decided durably, and how late they are below that. A private PostgreSQL with fsync on.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "libs/base/check.hpp"
#include "libs/base/random.hpp"
#include "libs/eventlog/postgres_log.hpp"
#include "libs/telemetry/metrics.hpp"
#include "services/lifecycle/app/deadlines.hpp"
#include "services/lifecycle/app/works.hpp"
#include "tests/support/postgres_fixture.hpp"

namespace {

using namespace nodus;
using namespace nodus::lifecycle;
using Steady = std::chrono::steady_clock;

constexpr int kMillion = 1'000'000;

double seconds_since(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

double resident_bytes() {
  double pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * 4096;
}

void wheel() {
  std::mt19937_64 random(1);
  const Instant start = SystemClock().now();
  const double before = resident_bytes();
  deadlines::Wheel wheel(start);
  auto began = Steady::now();
  for (int i = 0; i < kMillion; ++i)
    wheel.arm({random(), random(), static_cast<uint8_t>(i % 3)},
              start + Micros(static_cast<int64_t>(random() % 10'000'000)));
  const double arming = seconds_since(began);
  fmt::print("armed deadlines: {:.0f} bytes each by its own count, {:.0f} by the resident set (goal 100)\n",
             static_cast<double>(wheel.memory_bytes()) / kMillion, (resident_bytes() - before) / kMillion);
  // Ten seconds of deadlines, as fast as they can be handed on, a millisecond at a time.
  began = Steady::now();
  size_t fired = 0;
  for (Instant now = start; wheel.size() > 0; now += Millis(1)) {
    wheel.advance(now);
    for (const auto& armed : wheel.take(kMillion)) {
      CHECK(armed.due <= now, "early");
      ++fired;
    }
  }
  const double firing = seconds_since(began);
  fmt::print("wheel: {:.0f} armed/s, {:.0f} fired/s (goal 100000), none early\n", kMillion / arming,
             static_cast<double>(fired) / firing);
}

struct Database {
  Database()
      : pool({.url = test::fresh_database(test::migrations_of("lifecycle"), "lifecycle"),
              .schema = "lifecycle",
              .application_name = "bench"},
             8),
        log(eventlog::make_postgres_log(clock, pool, 4).value()) {
    CHECK(eventlog::ensure_ranges(pool).has_value(), "no room in the log");
  }
  SystemClock clock;
  pg::Pool pool;
  std::unique_ptr<eventlog::EventLog> log;
};

double armed_now() {
  const std::string text = metrics::render(), name = "\nnodus_lifecycle_deadlines_armed ";
  const auto at = text.find(name);
  return at == std::string::npos ? 0 : std::stod(text.substr(at + name.size()));
}

void load() {
  Database db;
  auto filled = db.pool.with_tx([](pg::Tx& tx) -> Result<void> {
    tx.exec("SET LOCAL statement_timeout = 0");
    tx.exec(
        "INSERT INTO deadlines SELECT 'sandbox/' || gen_random_uuid(), 'lifetime',"
        " (extract(epoch FROM now()) * 1000000)::bigint + 86400000000 + n FROM generate_series(1, 1000000) "
        "n");
    return {};
  });
  CHECK(filled.has_value(), "{}", filled.error().message);
  (void)db.pool.with_tx([](pg::Tx& tx) -> Result<void> {
    tx.exec("SET LOCAL statement_timeout = 0; ANALYZE deadlines");
    return {};
  });
  eventlog::Batcher batcher(*db.log, {});
  Deadlines deadlines(batcher, db.pool, db.clock, {});
  const auto began = Steady::now();
  deadlines.start();
  while (armed_now() < kMillion) std::this_thread::sleep_for(Millis(5));
  fmt::print("load: 1000000 deadlines from PostgreSQL in {:.2f} s (goal 3)\n", seconds_since(began));
}

// Running Sandboxes whose idle time passes at `first`, `first` + `step`, …
std::map<std::string, Instant> make_running(Database& db, int count, Instant first, Micros step) {
  std::map<std::string, Instant> due;
  constexpr auto kIdle = std::chrono::minutes(5);
  std::vector<eventlog::Work> works;
  for (int i = 0; i < count; ++i) {
    const SandboxUid uid(random_uuid());
    const Instant at = first + step * i - kIdle;
    SandboxCreated created{.uid = uid,
                           .org = OrgId("acme"),
                           .project = ProjectId("web"),
                           .name = "s" + uid.str(),
                           .spec = {.image = "nodus/busybox", .idle_timeout = kIdle},
                           .image_digest = "sha256:abc",
                           .labels = {},
                           .annotations = {},
                           .at = at};
    works.push_back(create_sandbox({created, true}, SandboxUid(), {at, {}}, "", ""));
    works.push_back(change_sandbox(uid, RecordSlot{{1, 1, "m", "127.0.0.1:1", at}}, {at, {}}));
    works.push_back(change_sandbox(uid, RecordRunning{{1, "runsc", at}}, {at, {}}));
    due.emplace(sandbox_stream(uid), at + kIdle);
    if (works.size() < 300 && i + 1 < count) continue;
    for (const auto& answer : db.log->run(works)) CHECK(answer.has_value(), "{}", answer.error().message);
    works.clear();
  }
  return due;
}

// Lateness of each, by the time its decision was committed.
struct Watch {
  std::mutex mutex;
  std::vector<double> late_ms;
  int early = 0;
  size_t count() {
    std::lock_guard lock(mutex);
    return late_ms.size();
  }
};

void decide(const char* what, int count, int rate, int limit) {
  Database db;
  const bool overdue = rate == 0;
  // Made before they are due: a thousand take about a second.
  const Instant first = db.clock.now() + (overdue ? Micros(Seconds(-1)) : Micros(Millis(3)) * count);
  const auto due = make_running(db, count, first, overdue ? Micros(0) : Micros(1'000'000 / rate));
  eventlog::Batcher batcher(*db.log, {});
  Watch watch;
  Deadlines deadlines(batcher, db.pool, db.clock, {.rate_per_s = limit});
  db.log->on_commit([&](const std::vector<eventlog::Recorded>& events) {
    const Instant now = db.clock.now();
    {
      std::lock_guard lock(watch.mutex);
      for (const auto& event : events) {
        if (event.type != "nodus.lifecycle.v1.StopRequested") continue;
        const Micros late = now - due.at(event.stream);
        watch.late_ms.push_back(static_cast<double>(late.count()) / 1000);
        if (event.at < due.at(event.stream)) ++watch.early;
      }
    }
    deadlines.changed(events);
  });
  CHECK(overdue || db.clock.now() < first, "the machine is too slow to make them in time");
  deadlines.start();
  while (watch.count() == 0) std::this_thread::sleep_for(Micros(200));
  const auto began = Steady::now();
  const size_t already = watch.count();
  while (watch.count() < static_cast<size_t>(count)) std::this_thread::sleep_for(Micros(200));
  const double took = seconds_since(began);
  deadlines.stop();
  auto& late = watch.late_ms;
  std::ranges::sort(late);
  if (overdue)
    fmt::print("{}: {:.0f} durable decisions/s (goal 3000)\n", what,
               static_cast<double>(late.size() - already) / took);
  else
    fmt::print("{}: lateness p50 {:.1f} ms, p99 {:.1f} ms (goal 50), worst {:.1f} ms, {} early (goal 0)\n",
               what, late[late.size() / 2], late[late.size() * 99 / 100], late.back(), watch.early);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  test::use_durable_postgres();
  if (only.empty() || only == "wheel") wheel();
  if (only.empty() || only == "load") load();
  if (only.empty() || only == "decide") {
    for (int turn = 0; turn < 3; ++turn) decide("8000 overdue", 8'000, 0, 1'000'000);
    decide("500/s", 2'000, 500, 5'000);
    decide("1500/s", 6'000, 1'500, 5'000);
    decide("2500/s", 8'000, 2'500, 5'000);
  }
}
