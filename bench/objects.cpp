// Reading objects: GET of a Sandbox and a page of a list, with 1 to 1,000,000 Sandboxes beside it and 1 to
// 10,000 events in its history; and what telling watchers costs a durable commit. A private PostgreSQL.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "libs/base/check.hpp"
#include "libs/base/random.hpp"
#include "libs/eventlog/postgres_log.hpp"
#include "services/lifecycle/adapters/changes.hpp"
#include "services/lifecycle/adapters/postgres_catalog.hpp"
#include "services/lifecycle/adapters/render.hpp"
#include "services/lifecycle/app/works.hpp"
#include "tests/support/postgres_fixture.hpp"

namespace {

using namespace nodus;
using namespace nodus::lifecycle;
using Steady = std::chrono::steady_clock;

const ProjectId kProject("web");

struct Database {
  explicit Database(bool tell)
      : pool({.url = test::fresh_database(test::migrations_of("lifecycle"), "lifecycle"),
              .schema = "lifecycle",
              .application_name = "bench",
              .statement_timeout = Millis(600'000)},
             4),
        log(eventlog::make_postgres_log(clock, pool, 4).value()),
        catalog(*log, pool) {
    CHECK(eventlog::ensure_ranges(pool).has_value(), "no room in the log");
    sql("INSERT INTO organizations (org, created_us, quota_sandboxes, quota_cpu_milli, "
        "quota_creates_per_minute)"
        " VALUES ('acme', 1, 1000000000, 1000000000000, 1000000000);"
        "INSERT INTO projects (id, org, name, created_us) VALUES ('web', 'acme', 'web', 1)");
    if (tell)
      log->on_append(
          [this](pg::Tx& tx, std::vector<std::any>& notes) { write_changes(tx, notes, clock.now()); });
  }
  void sql(const std::string& text) {
    auto done = pool.with_tx([&](pg::Tx& tx) -> Result<void> {
      tx.exec(text);
      return {};
    });
    CHECK(done.has_value(), "{}", done.error().message);
  }
  SystemClock clock;
  pg::Pool pool;
  std::unique_ptr<eventlog::EventLog> log;
  PostgresCatalog catalog;
};

CreateSandbox creation(const SandboxUid& uid, const std::string& name, Instant at) {
  return {{.uid = uid,
           .org = OrgId("acme"),
           .project = kProject,
           .name = name,
           .spec = {.image = "nodus/busybox"},
           .image_digest = "sha256:abc",
           .labels = {{"app", "bench"}},
           .annotations = {},
           .at = at},
          true};
}

SandboxUid make(Database& db, const std::string& name) {
  const SandboxUid uid(random_uuid());
  const Instant now = db.clock.now();
  const std::vector<eventlog::Work> works{
      create_sandbox(creation(uid, name, now), SandboxUid(), {now, {}}, "", ""),
      change_sandbox(uid, RecordSlot{{1, 1, "m", "127.0.0.1:1", now}}, {now, {}}),
      change_sandbox(uid, RecordRunning{{1, "runsc", now}}, {now, {}})};
  for (const auto& answer : db.log->run(works)) CHECK(answer.has_value(), "{}", answer.error().message);
  return uid;
}

// Sandboxes beside the first, as rows: their state is a copy of its.
void fill(Database& db, const SandboxUid& like, int count) {
  db.sql(fmt::format(
      "WITH made AS (INSERT INTO sandboxes (uid, org, project, name, epoch, phase, labels) "
      "SELECT gen_random_uuid(), 'acme', 'web', 's-' || lpad((SELECT count(*) FROM sandboxes)::text, 8, '0') "
      "|| '-' || n, "
      "1, 'Running', '{{\"app\":\"bench\"}}' FROM generate_series(1, {}) n RETURNING uid) "
      "INSERT INTO heads (stream, log_partition, version, state_version, state) "
      "SELECT 'sandbox/' || made.uid, 0, 3, 1, h.state FROM made, heads h WHERE h.stream = 'sandbox/{}'",
      count, like.str()));
  db.sql("ANALYZE sandboxes, heads, processes");
}

// Commands, each an event of the Sandbox and two of its own, and ended.
void run_commands(Database& db, const SandboxUid& uid, int count) {
  const Instant now = db.clock.now();
  for (int done = 0; done < count;) {
    std::vector<eventlog::Work> works;
    for (int i = 0; i < 200 && done < count; ++i, ++done) {
      ProcessAdmitted admitted;
      admitted.uid = ProcessUid(random_uuid());
      admitted.command = {"true"};
      admitted.timeout = Seconds(60);
      admitted.at = now;
      works.push_back(admit_process(uid, admitted, {now, {}}, "", ""));
      works.push_back(end_process(admitted.uid, {"m", 1, {"", 0, "", {}, now}}));
    }
    for (const auto& answer : db.log->run(works)) CHECK(answer.has_value(), "{}", answer.error().message);
  }
}

template <class Call>
std::pair<double, double> microseconds(Call call, int rounds = 2000) {
  std::vector<double> took;
  for (int i = 0; i < rounds; ++i) {
    const auto began = Steady::now();
    call();
    took.push_back(std::chrono::duration<double, std::micro>(Steady::now() - began).count());
  }
  std::ranges::sort(took);
  return {took[took.size() / 2], took[took.size() * 99 / 100]};
}

double print_reads(Database& db, const std::string& what) {
  const auto get = microseconds([&] {
    const auto view = db.catalog.view(kProject, "first");
    CHECK(view.has_value(), "{}", view.error().message);
    (void)boost::json::serialize(render_sandbox(*view, db.clock.now()));
  });
  const auto page =
      microseconds([&] { CHECK(db.catalog.sandboxes(kProject, {.limit = 100}).has_value(), "list"); }, 200);
  ListQuery query{.limit = 100, .after = "", .selector = {}};
  query.selector.labels = {{"app", Requirement::Op::kIn, {"first"}}};
  const auto selected =
      microseconds([&] { CHECK(db.catalog.sandboxes(kProject, query).has_value(), "select"); }, 50);
  fmt::print("{:<44} GET {:>6.0f} µs (p99 {:>6.0f})   page of 100 {:>6.0f}   rare label {:>6.0f}\n", what,
             get.first, get.second, page.first, selected.first);
  std::fflush(stdout);  // the next line may take minutes
  return get.first;
}

void reads() {
  Database db(true);
  const auto first = make(db, "first");
  const double alone = print_reads(db, "1 Sandbox, 3 events of its own");
  int there = 1;
  double last = 0;
  for (const int count : {1'000, 100'000, 1'000'000}) {
    fill(db, first, count - there);
    there = count;
    last = print_reads(db, fmt::format("{} Sandboxes", count));
  }
  int events = 0;
  for (const int count : {100, 10'000}) {
    run_commands(db, first, count - events);
    events = count;
    last = print_reads(db, fmt::format("{} Sandboxes, {} commands in its history", there, count));
  }
  fmt::print("GET with a million beside it and 10,000 commands behind it: {:.2f} × alone\n", last / alone);
}

double decisions_per_s(bool tell) {
  Database db(tell);
  const auto now = db.clock.now();
  std::vector<SandboxUid> uids;
  for (int i = 0; i < 2048; ++i) uids.emplace_back(random_uuid());
  int done = 0;
  const auto began = Steady::now();
  for (size_t from = 0; from < uids.size(); from += 256) {
    std::vector<eventlog::Work> works;
    for (size_t i = from; i < from + 256; ++i)
      works.push_back(
          create_sandbox(creation(uids[i], "s" + std::to_string(i), now), SandboxUid(), {now, {}}, "", ""));
    for (const auto& answer : db.log->run(works)) CHECK(answer.has_value(), "{}", answer.error().message);
    works.clear();
    for (size_t i = from; i < from + 256; ++i)
      works.push_back(change_sandbox(uids[i], RecordSlot{{1, 1, "m", "127.0.0.1:1", now}}, {now, {}}));
    for (const auto& answer : db.log->run(works)) CHECK(answer.has_value(), "{}", answer.error().message);
    done += 512;
  }
  return done / std::chrono::duration<double>(Steady::now() - began).count();
}

}  // namespace

int main() {
  test::use_durable_postgres();
  const double silent = decisions_per_s(false);
  const double told = decisions_per_s(true);
  fmt::print(
      "durable decisions in batches of 256, one writer: {:.0f}/s; with changes and Events told {:.0f}/s "
      "({:.2f} ×)\n",
      silent, told, told / silent);
  reads();
  return 0;
}
