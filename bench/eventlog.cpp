// The event log against bare PostgreSQL. Both sides of a figure take turns in one run, so that a noisy disk
// or neighbour hits both; the ratio is of medians.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "libs/base/check.hpp"
#include "libs/base/clock.hpp"
#include "libs/eventlog/batcher.hpp"
#include "libs/eventlog/postgres_log.hpp"
#include "libs/pg/arrays.hpp"
#include "tests/support/postgres_fixture.hpp"

namespace {

using namespace nodus;
using Steady = std::chrono::steady_clock;

constexpr int kStreams = 2'000;
constexpr size_t kPayload = 200;
constexpr size_t kState = 200;

double seconds_since(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.at(values.size() / 2);
}

struct Database {
  explicit Database(int connections)
      : url(test::fresh_database(test::log_files(), "bench")),
        options{.url = url, .schema = "bench", .application_name = "bench"},
        pool(options, connections),
        log(eventlog::make_postgres_log(clock, pool, 4).value()) {
    auto made = pool.with_tx([](pg::Tx& tx) -> Result<void> {
      tx.exec(
          "CREATE TABLE bare (LIKE events INCLUDING ALL); ALTER TABLE bare DROP CONSTRAINT IF EXISTS "
          "bare_pkey;"
          "CREATE SEQUENCE bare_position; ALTER TABLE bare ALTER position SET DEFAULT "
          "nextval('bare_position');"
          "ALTER TABLE bare ADD PRIMARY KEY (log_partition, position);"
          "CREATE TABLE bare_heads (LIKE heads INCLUDING ALL) WITH (fillfactor = 60);"
          "CREATE TABLE one_row (n bigint, v text); INSERT INTO one_row VALUES (0, '')");
      return {};
    });
    CHECK(made.has_value(), "{}", made.error().message);
  }
  std::string url;
  SystemClock clock;
  pg::ConnectOptions options;
  pg::Pool pool;
  std::unique_ptr<eventlog::EventLog> log;
};

std::string stream_name(int n) {
  return fmt::format("sandbox/6f1c0000-0000-4000-8000-{:012}", n);
}

eventlog::Work add(const std::string& stream) {
  return {"", "", {stream}, [stream](eventlog::Unit& unit) -> Result<std::string> {
            (void)unit.head(stream);
            unit.append(stream, {{"nodus.lifecycle.v1.SandboxCreated", std::string(kPayload, 'x')}},
                        std::string(kState, 's'), 1);
            return std::string();
          }};
}

// The same rows by hand: one multi-row INSERT in one transaction, positions from a sequence.
void bare_insert(pqxx::connection_base& connection, int first, int count, bool with_heads) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(stream_name((first + i) % kStreams));
  std::string payload(kPayload, 'x'), type = "nodus.lifecycle.v1.SandboxCreated", state(kState, 's');
  std::vector<std::string_view> streams(names.begin(), names.end());
  std::vector<std::string_view> types(names.size(), type), payloads(names.size(), payload),
      states(names.size(), state);
  std::vector<int32_t> parts;
  for (const auto& name : names) parts.push_back(eventlog::partition_of(name, 4));
  pqxx::work tx(connection);
  connection.prepare(
      "bare",
      "INSERT INTO bare (log_partition, version, at_us, stream, type, payload) SELECT p, 1, 1, s, t, b"
      " FROM unnest($1::int[], $2::text[], $3::text[], $4::bytea[]) AS u (p, s, t, b)");
  tx.exec_prepared("bare", pg::int4_array(parts), pg::text_array(streams), pg::text_array(types),
                   pg::bytea_array(payloads));
  if (with_heads) {
    connection.prepare(
        "bare_heads",
        "INSERT INTO bare_heads (log_partition, version, state_version, stream, state)"
        " SELECT p, 1, 1, s, b FROM unnest($1::int[], $2::text[], $3::bytea[]) AS u (p, s, b)"
        " ON CONFLICT (stream) DO UPDATE SET version = bare_heads.version + 1, state = excluded.state");
    tx.exec_prepared("bare_heads", pg::int4_array(parts), pg::text_array(streams), pg::bytea_array(states));
  }
  tx.commit();
}

// Processor time of this process and of its database's sessions: says what a noisy machine hides.
double cpu_seconds(Database& db) {
  timespec own{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  double total = static_cast<double>(own.tv_sec) + static_cast<double>(own.tv_nsec) / 1e9;
  auto pids = db.pool.with_tx([](pg::Tx& tx) -> Result<std::vector<int>> {
    std::vector<int> found;
    for (const auto& row : tx.exec("SELECT pid FROM pg_stat_activity WHERE datname = current_database()"))
      found.push_back(row[0].as<int>());
    return found;
  });
  for (int pid : pids.value()) {
    double nanoseconds = 0;
    if (std::ifstream(fmt::format("/proc/{}/schedstat", pid)) >> nanoseconds) total += nanoseconds / 1e9;
  }
  return total;
}

struct Figures {
  std::vector<double> rate, cpu_us;
  double events_per_s() const { return median(rate); }
  double us_per_event() const { return median(cpu_us); }
};

// Events a second with `clients` threads, each with batches of its own for about `seconds`.
double rate(int clients, int batch, double seconds, const std::function<void(int client, int first)>& once) {
  std::atomic<int64_t> events = 0;
  auto start = Steady::now();
  {
    std::vector<std::jthread> threads;
    for (int c = 0; c < clients; ++c)
      threads.emplace_back([&, c] {
        for (int first = c * kStreams / clients; seconds_since(start) < seconds; first += batch) {
          once(c, first);
          events += batch;
        }
      });
  }
  return static_cast<double>(events) / seconds_since(start);
}

void durable_append(int clients, int batch) {
  Database db(clients);
  std::vector<std::unique_ptr<pg::Connection>> bare;
  for (int c = 0; c < clients; ++c) bare.push_back(std::make_unique<pg::Connection>(db.options));
  // Each client has log partitions of its own, as the batcher's workers do.
  std::vector<std::vector<std::string>> streams(static_cast<size_t>(clients));
  for (int n = 0; n < kStreams; ++n)
    streams[static_cast<size_t>(eventlog::partition_of(stream_name(n), 4) % clients)].push_back(
        stream_name(n));
  auto through_log = [&](int client, int first) {
    const auto& own = streams[static_cast<size_t>(client)];
    std::vector<eventlog::Work> works;
    for (int i = 0; i < batch; ++i) works.push_back(add(own[static_cast<size_t>(first + i) % own.size()]));
    for (const auto& answer : db.log->run(works)) CHECK(answer.has_value(), "{}", answer.error().message);
  };
  auto by_hand = [&](int client, int first) {
    bare_insert(bare[static_cast<size_t>(client)]->raw(), first, batch, false);
  };
  auto with_heads = [&](int client, int first) {
    bare_insert(bare[static_cast<size_t>(client)]->raw(), first, batch, true);
  };
  Figures log, insert, both;
  auto measure = [&](Figures& into, bool keep, double seconds, const auto& once) {
    double before = cpu_seconds(db);
    auto start = Steady::now();
    double events_per_s = rate(clients, batch, seconds, once);
    double events = events_per_s * seconds_since(start);
    double cpu = cpu_seconds(db) - before;
    if (!keep) return;
    into.rate.push_back(events_per_s);
    into.cpu_us.push_back(cpu * 1e6 / events);
  };
  for (int turn = 0; turn < 8; ++turn) {  // the first warms up
    measure(log, turn > 0, 0.7, through_log);
    measure(insert, turn > 0, 0.7, by_hand);
    measure(both, turn > 0, 0.7, with_heads);
  }
  fmt::print(
      "append, {} client(s), batches of {:3}: eventlog {:6.0f} events/s {:4.1f} us cpu | bare INSERT "
      "{:6.0f}, {:4.1f}:"
      " ratio {:.2f} (goal 0.70) | INSERT and head rows {:6.0f}, {:4.1f}: ratio {:.2f}\n",
      clients, batch, log.events_per_s(), log.us_per_event(), insert.events_per_s(), insert.us_per_event(),
      log.events_per_s() / insert.events_per_s(), both.events_per_s(), both.us_per_event(),
      log.events_per_s() / both.events_per_s());
}

double callers(eventlog::EventLog& log, int count, int max_batch, double seconds) {
  eventlog::Batcher batcher(log, {.workers = 2, .max_batch = max_batch, .queue_limit = 4096});
  return rate(count, 1, seconds, [&](int client, int first) {
    auto answer = batcher.run(add(stream_name((client * 31 + first) % kStreams)));
    CHECK(answer.has_value(), "{}", answer.error().message);
  });
}

void batched_callers() {
  Database db(4);
  std::vector<double> many, single;
  for (int turn = 0; turn < 6; ++turn) {
    double a = callers(*db.log, 64, 256, 1.0);
    double b = callers(*db.log, 64, 1, 1.0);
    if (turn == 0) continue;
    many.push_back(a);
    single.push_back(b);
  }
  fmt::print("64 callers: batched {:8.0f} commands/s | batch size 1 {:8.0f} ratio {:.1f} (goal 2, aim 3)\n",
             median(many), median(single), median(many) / median(single));
}

void idle_command() {
  Database db(2);
  eventlog::Batcher batcher(*db.log, {});
  pg::Connection bare(db.options);
  auto timed = [](const std::function<void()>& once) {
    auto start = Steady::now();
    once();
    return seconds_since(start) * 1e6;
  };
  std::vector<double> log_us, insert_us, update_us;
  for (int i = 0; i < 600; ++i) {
    double a = timed([&] { CHECK(batcher.run(add(stream_name(i % kStreams))).has_value()); });
    double b = timed([&] { bare_insert(bare.raw(), i, 1, false); });
    double c = timed([&] {
      pqxx::nontransaction tx(bare.raw());
      tx.exec("UPDATE one_row SET n = n + 1");
    });
    if (i < 100) continue;
    log_us.push_back(a);
    insert_us.push_back(b);
    update_us.push_back(c);
  }
  double a = median(log_us), b = median(insert_us), c = median(update_us);
  fmt::print(
      "one idle command: {:6.0f} us | bare one-row INSERT {:6.0f} us ratio {:.2f} (goal 1.50)"
      " | autocommit UPDATE {:6.0f} us ratio {:.2f}\n",
      a, b, a / b, c, a / c);
}

}  // namespace

int main(int argc, char** argv) {
  std::string only = argc > 1 ? argv[1] : "";
  test::use_durable_postgres();
  if (only == "one") durable_append(1, 256);
  if (only.empty() || only == "append")
    for (auto [clients, batch] : {std::pair{1, 64}, {1, 256}, {4, 64}, {4, 256}})
      durable_append(clients, batch);
  if (only.empty() || only == "callers") batched_callers();
  if (only.empty() || only == "idle") idle_command();
}
