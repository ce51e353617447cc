// Metering: rating in memory, closed intervals a second that are rated, posted and durable beside bare SQL
// that writes the same rows in the same batches, caps that end in one second, and what a hundred thousand
// running Sandboxes cost while nothing changes. A private PostgreSQL with fsync on.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "libs/base/check.hpp"
#include "libs/base/random.hpp"
#include "libs/eventlog/postgres_log.hpp"
#include "libs/pg/arrays.hpp"
#include "services/metering/adapters/postgres/deadline_rows.hpp"
#include "services/metering/adapters/postgres/read_models.hpp"
#include "services/metering/adapters/postgres/row_batch.hpp"
#include "services/metering/app/deadlines.hpp"
#include "services/metering/app/streams.hpp"
#include "tests/support/postgres_fixture.hpp"

namespace {

using namespace nodus;
using namespace nodus::metering;
using Steady = std::chrono::steady_clock;

constexpr size_t kBatch = 256;

double seconds_since(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}
double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.at(values.size() / 2);
}

struct Database {
  Database()
      : url(nodus::test::fresh_database(nodus::test::migrations_of("metering"), "metering")),
        pool({.url = url, .schema = "metering", .application_name = "bench"}, 4),
        log(eventlog::make_postgres_log(clock, pool, 4).value()),
        projections(*log),
        works(clock, Durations(), lookups, projections) {
    CHECK(eventlog::ensure_ranges(pool).has_value(), "no room in the log");
    sql("INSERT INTO prices (version, effective_us, cpu_per_vcpu_s, memory_per_gib_s, disk_per_gib_s, "
        "published_us)"
        " VALUES ('bench', 0, 0.0000035, 0, 0, 0)");
  }
  void sql(const std::string& text) {
    auto done = pool.with_tx([&](pg::Tx& tx) -> Result<void> {
      tx.exec(text);
      return {};
    });
    CHECK(done.has_value(), "{}", done.error().message);
  }
  // In batches, one client; how long that took.
  double run(const std::vector<Command>& commands, size_t batch) {
    const auto began = Steady::now();
    for (size_t from = 0; from < commands.size(); from += batch) {
      std::vector<eventlog::Work> turn;
      for (size_t i = from; i < std::min(from + batch, commands.size()); ++i)
        turn.push_back(works.on_start(commands[i]));
      for (const auto& answer : log->run(turn)) CHECK(answer.has_value(), "{}", answer.error().message);
    }
    return seconds_since(began);
  }
  void credit(const std::string& org) {
    const std::vector<eventlog::Work> all{works.on_account(
        PostCredit{OrgId(org), random_uuid(), "Grant", Money::parse("1000000").value(), "bench"})};
    CHECK(log->run(all).front().has_value(), "credit");
  }

  std::string url;
  SystemClock clock;
  pg::Pool pool;
  std::unique_ptr<eventlog::EventLog> log;
  PostgresLookups lookups;
  PostgresProjections projections;
  Works works;
};

void rating() {
  std::mt19937_64 random(1);
  std::vector<Times> times(1'000);
  const Instant start = from_micros(1'800'000'000'000'000);
  for (auto& t : times) {
    t.reserved = start + Micros(static_cast<int64_t>(random() % 1'000'000));
    t.started = *t.reserved + Micros(static_cast<int64_t>(random() % 5'000'000));
    t.stopping = *t.started + Micros(static_cast<int64_t>(random() % 4'000'000'000));
    t.released = *t.stopping + Micros(static_cast<int64_t>(random() % 5'000'000));
  }
  const Rate rate = Rate::from_pico_per_second(5'833'125);
  Money sum;
  const auto began = Steady::now();
  constexpr int kTurns = 2'000;
  for (int turn = 0; turn < kTurns; ++turn)
    for (const auto& t : times)
      sum += total(
          rate_lines(t, to_money_second(*t.reserved), to_money_second(*t.released), rate, std::nullopt));
  fmt::print("rating in memory: {:.2f} M intervals/s a core (goal 2), sum {}\n",
             kTurns * static_cast<double>(times.size()) / seconds_since(began) / 1e6, sum.to_display());
}

struct Fleet {
  std::vector<SlotRef> slots;
  Times times;
};

// Starts that are open since 103 s ago.
Fleet open_starts(Database& db, size_t count, int orgs) {
  Fleet fleet;
  std::vector<Command> offers, opens;
  const Instant now = db.clock.now();
  fleet.times = {now - Seconds(103), now - Seconds(100), now - Seconds(3), now};
  for (size_t i = 0; i < count; ++i) {
    const SlotRef slot{SandboxUid(random_uuid()), 1, 1,
                       OrgId(fmt::format("org-{}", i % static_cast<size_t>(orgs))), ProjectId("web")};
    fleet.slots.push_back(slot);
    offers.emplace_back(JudgeOffer{slot, "box", {.cpu_milli = 1000}, std::nullopt});
    opens.emplace_back(OpenCharge{slot, {.reserved = fleet.times.reserved}});
  }
  db.run(offers, kBatch);
  db.run(opens, kBatch);
  return fleet;
}

std::vector<Command> closings(const Fleet& fleet) {
  std::vector<Command> out;
  for (const auto& slot : fleet.slots) out.emplace_back(CloseCharge{slot, fleet.times});
  return out;
}

// The rows that closing these starts wrote, by hand: events and heads from arrays, read models as they are.
class Bare {
 public:
  explicit Bare(Database& db)
      : db_(db), pool_({.url = db.url, .schema = "bare", .application_name = "bench-bare"}, 1) {
    db.sql(
        "CREATE SCHEMA bare; SET LOCAL search_path = bare, metering;"
        "CREATE TABLE events (LIKE metering.events INCLUDING ALL); CREATE SEQUENCE positions;"
        "CREATE TABLE heads (LIKE metering.heads INCLUDING ALL) WITH (fillfactor = 60);"
        "CREATE TABLE starts (LIKE metering.starts INCLUDING ALL);"
        "CREATE TABLE bill_lines (LIKE metering.bill_lines INCLUDING ALL);"
        "CREATE TABLE bill_days (LIKE metering.bill_days INCLUDING ALL);"
        "CREATE TABLE billing_periods (LIKE metering.billing_periods INCLUDING ALL);"
        "CREATE TABLE postings (LIKE metering.postings INCLUDING ALL);"
        "CREATE TABLE accounts (LIKE metering.accounts INCLUDING ALL);"
        "CREATE TABLE balance_deadlines (LIKE metering.balance_deadlines INCLUDING ALL)");
  }

  // What `fleet` left in the log and the tables, as batches to write again.
  void take(const Fleet& fleet, size_t batch) {
    batches_.clear();
    for (size_t from = 0; from < fleet.slots.size(); from += batch) {
      Rows rows;
      for (size_t i = from; i < std::min(from + batch, fleet.slots.size()); ++i) {
        const auto& slot = fleet.slots[i];
        const auto events = db_.log->read_stream(charge_stream(slot.uid), 2, 10).value();
        for (const auto& event : events) {
          rows.events.push_back(event);
          rows.events.push_back({event.partition, 0, account_stream(slot.org), 1,
                                 "nodus.metering.v1.AccrualEnded", event.payload.substr(0, 160), event.at});
        }
        rows.heads.push_back(db_.log->head(charge_stream(slot.uid)).value());
        rows.accounts[slot.org.str()] = db_.log->head(account_stream(slot.org)).value();
        const Rate rate = rate_of({.cpu_per_vcpu_s = Money::parse("0.0000035").value(),
                                   .memory_per_gib_s = {},
                                   .disk_per_gib_s = {},
                                   .machine_type = "",
                                   .machine_per_s = {},
                                   .shape = {.cpu_milli = 1000}});
        auto lines = rate_lines(fleet.times, to_money_second(*fleet.times.reserved),
                                to_money_second(*fleet.times.released), rate, std::nullopt);
        const Money amount = total(lines);
        rows.notes.emplace_back(
            BillNote{{slot, rate, std::move(lines), amount, amount, 0, db_.clock.now()}, "box"});
        rows.notes.emplace_back(StartNote{slot.uid, std::nullopt});
        rows.notes.emplace_back(AccountNote{account::State{.org = slot.org}});
        rows.notes.emplace_back(DueNote{slot.org, db_.clock.now() + Seconds(100'000'000)});
      }
      batches_.push_back(std::move(rows));
    }
    db_.sql(
        "TRUNCATE bare.bill_lines, bare.bill_days, bare.postings, bare.starts;"
        "INSERT INTO bare.starts SELECT * FROM metering.starts");
  }

  double write() {
    const auto began = Steady::now();
    for (const auto& rows : batches_) {
      auto done = pool_.with_tx([&](pg::Tx& tx) -> Result<void> {
        insert(tx, rows);
        write_rows(tx, rows.notes);
        return {};
      });
      CHECK(done.has_value(), "{}", done.error().message);
    }
    return seconds_since(began);
  }

 private:
  struct Rows {
    std::vector<eventlog::Recorded> events;
    std::vector<eventlog::Head> heads;
    std::map<std::string, eventlog::Head> accounts;
    std::vector<std::any> notes;
  };

  static void insert(pg::Tx& tx, const Rows& rows) {
    std::vector<std::string_view> streams, types, payloads, names, states;
    std::vector<int32_t> parts, head_parts;
    for (const auto& event : rows.events) {
      parts.push_back(event.partition);
      streams.push_back(event.stream);
      types.push_back(event.type);
      payloads.push_back(event.payload);
    }
    const auto add_head = [&](const eventlog::Head& head) {
      head_parts.push_back(0);
      names.push_back(head.stream);
      states.push_back(head.state);
    };
    for (const auto& head : rows.heads) add_head(head);
    for (const auto& [org, head] : rows.accounts) add_head(head);
    tx.conn().prepare("bare_events",
                      "INSERT INTO events (log_partition, position, version, at_us, stream, type, payload)"
                      " SELECT p, nextval('positions'), 1, 1, s, t, b"
                      " FROM unnest($1::int[], $2::text[], $3::text[], $4::bytea[]) AS u (p, s, t, b)");
    tx.exec_prepared("bare_events", pg::int4_array(parts), pg::text_array(streams), pg::text_array(types),
                     pg::bytea_array(payloads));
    tx.conn().prepare(
        "bare_heads",
        "INSERT INTO heads (log_partition, version, state_version, stream, state)"
        " SELECT p, 1, 1, s, b FROM unnest($1::int[], $2::text[], $3::bytea[]) AS u (p, s, b)"
        " ON CONFLICT (stream) DO UPDATE SET version = heads.version + 1, state = excluded.state");
    tx.exec_prepared("bare_heads", pg::int4_array(head_parts), pg::text_array(names),
                     pg::bytea_array(states));
  }

  Database& db_;
  pg::Pool pool_;
  std::vector<Rows> batches_;
};

void posting(const char* what, int orgs) {
  Database db;
  for (int i = 0; i < orgs; ++i) db.credit(fmt::format("org-{}", i));
  Bare bare(db);
  constexpr size_t kCount = 4'096, kFew = 256;
  std::vector<double> ours, theirs, ours_one, theirs_one;
  for (int turn = 0; turn < 6; ++turn) {  // the first warms up
    const auto fleet = open_starts(db, kCount, orgs);
    const double a = db.run(closings(fleet), kBatch);
    bare.take(fleet, kBatch);
    const double b = bare.write();
    const auto few = open_starts(db, kFew, orgs);
    const double c = db.run(closings(few), 1);
    bare.take(few, 1);
    const double d = bare.write();
    if (turn == 0) continue;
    ours.push_back(kCount / a);
    theirs.push_back(kCount / b);
    ours_one.push_back(kFew / c);
    theirs_one.push_back(kFew / d);
  }
  fmt::print(
      "{}: rated, posted, durable {:.0f} intervals/s | bare SQL, same rows and batches {:.0f}: ratio {:.2f} "
      "(goal "
      "0.5) | one transaction each, bare {:.0f}: {:.1f} × (goal 5), through the log {:.0f}\n",
      what, median(ours), median(theirs), median(ours) / median(theirs), median(theirs_one),
      median(ours) / median(theirs_one), median(ours_one));
}

void caps() {
  Database db;
  db.credit("org-0");
  constexpr int kCount = 1'000;
  const Rate rate = rate_of({.cpu_per_vcpu_s = Money::parse("0.0000035").value(),
                             .memory_per_gib_s = {},
                             .disk_per_gib_s = {},
                             .machine_type = "",
                             .machine_per_s = {},
                             .shape = {.cpu_milli = 1000}});
  const Instant reserved = to_instant(to_money_second(db.clock.now()) - 68);
  const Instant due = reserved + Seconds(80);
  std::vector<Command> offers, opens;
  for (int i = 0; i < kCount; ++i) {
    const SlotRef slot{SandboxUid(random_uuid()), 1, 1, OrgId("org-0"), ProjectId("web")};
    offers.emplace_back(JudgeOffer{slot, "box", {.cpu_milli = 1000}, rate * 80});
    opens.emplace_back(OpenCharge{slot, {.reserved = reserved}});
  }
  std::mutex mutex;
  std::vector<double> late;
  PostgresDeadlineRows rows(db.pool);
  Watermark watermark;
  Deadlines deadlines(db.clock, *db.log, db.works, rows, watermark);
  db.log->on_commit([&](const std::vector<eventlog::Recorded>& events) {
    const Instant now = db.clock.now();
    {
      std::lock_guard lock(mutex);
      for (const auto& event : events)
        if (event.type == "nodus.metering.v1.StopOrdered")
          late.push_back(static_cast<double>((now - due).count()) / 1000);
    }
    deadlines.wake();
  });
  db.run(offers, kBatch);
  db.run(opens, kBatch);
  CHECK(db.clock.now() < due, "the machine is too slow to open them in time");
  std::jthread facts([&](const std::stop_token& stop) {  // the bus: everything is known up to now
    while (!stop.stop_requested()) {
      watermark.reached(db.clock.now());
      std::this_thread::sleep_for(Millis(10));
    }
  });
  deadlines.start();
  const auto end = Steady::now() + std::chrono::seconds(40);
  for (bool all = false; !all && Steady::now() < end;) {
    std::this_thread::sleep_for(Millis(5));
    std::lock_guard lock(mutex);
    all = late.size() >= kCount;
  }
  deadlines.stop();
  std::ranges::sort(late);
  CHECK(late.size() == kCount, "{} stops of {}", late.size(), kCount);
  fmt::print(
      "{} caps that end in one second: stops ordered p50 {:.0f} ms, worst {:.0f} ms after (goal 1000), first "
      "{:.0f} ms\n",
      kCount, late[late.size() / 2], late.back(), late.front());
}

double cpu_seconds(Database& db) {
  timespec own{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  double sum = static_cast<double>(own.tv_sec) + static_cast<double>(own.tv_nsec) / 1e9;
  auto pids = db.pool.with_tx([](pg::Tx& tx) -> Result<std::vector<int>> {
    std::vector<int> found;
    for (const auto& row : tx.exec("SELECT pid FROM pg_stat_activity WHERE application_name = 'bench' AND "
                                   "backend_type = 'client backend'"))
      found.push_back(row[0].as<int>());
    return found;
  });
  for (int pid : pids.value()) {
    double nanoseconds = 0;
    if (std::ifstream(fmt::format("/proc/{}/schedstat", pid)) >> nanoseconds) sum += nanoseconds / 1e9;
  }
  return sum;
}

void idle() {
  Database db;
  for (int i = 0; i < 1'000; ++i) db.credit(fmt::format("org-{}", i));
  for (int turn = 0; turn < 10; ++turn) open_starts(db, 10'000, 1'000);
  PostgresDeadlineRows rows(db.pool);
  Watermark watermark;
  watermark.reached(db.clock.now() + Seconds(3'600));
  Deadlines deadlines(db.clock, *db.log, db.works, rows, watermark);
  deadlines.start();
  std::this_thread::sleep_for(std::chrono::seconds(5));
  const double before = cpu_seconds(db);
  const auto began = Steady::now();
  std::this_thread::sleep_for(std::chrono::seconds(20));
  fmt::print(
      "100000 running, nothing changes: money deadlines take {:.2f} % of a core, the database's side "
      "included "
      "(goal 1)\n",
      (cpu_seconds(db) - before) / seconds_since(began) * 100);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  nodus::test::use_durable_postgres();
  if (only.empty() || only == "rating") rating();
  if (only.empty() || only == "posting") {
    posting("1000 organizations", 1'000);
    posting("one hot organization", 1);
  }
  if (only.empty() || only == "caps") caps();
  if (only.empty() || only == "idle") idle();
}
