// What watchers are told, resource versions, pages and Events, on a real PostgreSQL.
#include <boost/json.hpp>

#include <latch>
#include <thread>

#include "services/lifecycle/adapters/change_keeper.hpp"
#include "tests/integration/lifecycle/lifecycle_fixture.hpp"

namespace nodus::lifecycle {
namespace {

namespace json = boost::json;

class Changes : public Lifecycle {
 protected:
  std::vector<Change> all(const std::string& resource, int64_t after = 0) {
    auto page = catalog_.changes(ProjectId("web"), resource, after, 1000);
    EXPECT_TRUE(page.has_value());
    return page->changes;
  }
  static std::string at(const Change& change, std::string_view pointer) {
    return std::string(json::parse(change.object).at_pointer(pointer).as_string());
  }
  SandboxView view(const std::string& name) { return *catalog_.view(ProjectId("web"), name); }
  Selector fields(const std::string& text, std::vector<std::string_view> supported) {
    return {{}, *parse_field_selector(text, supported)};
  }
};

TEST_F(Changes, EveryVisibleChangeHasAPositionOfItsOwn) {
  const auto sandbox = make_running("a");
  change(sandbox, RequestStop{});
  const auto told = all("sandboxes");
  std::vector<std::string> phases;
  for (const auto& change : told) phases.push_back(change.type + " " + at(change, "/status/phase"));
  EXPECT_EQ(phases, (std::vector<std::string>{"ADDED Pending", "MODIFIED Starting", "MODIFIED Running",
                                              "MODIFIED Stopping"}));
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(at(told[i], "/metadata/resourceVersion"), std::to_string(told[i].position));
    if (i > 0) EXPECT_GT(told[i].position, told[i - 1].position);
  }
  EXPECT_EQ(view("a").resource_version, told.back().position);
  EXPECT_EQ(view("a").generation, 2) << "a stop changes spec.state";
}

TEST_F(Changes, WhatReadsTheSameIsNoChange) {
  const auto sandbox = make_running("a");
  const auto before = view("a").resource_version;
  change(sandbox, RecordRunning{{1, "runsc", clock_.now()}});
  clock_.advance(Seconds(60));  // COST grows
  EXPECT_EQ(view("a").resource_version, before);
}

TEST_F(Changes, CommandsMakeASandboxBusyAndIdleAgain) {
  const auto sandbox = make_running("a");
  const auto from = view("a").resource_version;
  const auto first = sandboxes_.admit(sandbox, {.command = {"true"}});
  const auto second = sandboxes_.admit(sandbox, {.command = {"true"}});
  for (const auto* admission : {&*first, &*second})
    ASSERT_TRUE(batcher_
                    .run(end_process(admission->process->admitted.uid,
                                     {"machine-1", 1, {"", 0, "", {}, clock_.now()}}))
                    .has_value());
  std::vector<std::string> told;
  for (const auto& change : all("sandboxes", from)) told.push_back(at(change, "/status/activity"));
  EXPECT_EQ(told, (std::vector<std::string>{"Busy", "Idle"})) << "once each, not for each command";
  const auto processes = all("processes");
  ASSERT_EQ(processes.size(), 4u);
  EXPECT_EQ(processes[0].type, "ADDED");
  EXPECT_EQ(processes[2].type, "MODIFIED");
  EXPECT_EQ(at(processes[2], "/status/phase"), "Ended");
  EXPECT_EQ(catalog_.process_view(ProjectId("web"), "sb-a-1")->resource_version, processes[2].position);
}

TEST_F(Changes, ADeletedSandboxGoesWithItsProcesses) {
  const auto sandbox = make_running("a");
  const auto ended = sandboxes_.admit(sandbox, {.command = {"true"}});
  const auto open = sandboxes_.admit(sandbox, {.command = {"true"}});
  const auto end = [&](const Process& process) {
    ASSERT_TRUE(
        batcher_.run(end_process(process.admitted.uid, {"machine-1", 1, {"", 0, "", {}, clock_.now()}}))
            .has_value());
  };
  end(*ended->process);
  change(sandbox, DeleteSandbox{});
  const auto from = all("events").back().position;
  change(sandbox, RecordRelease{{.start = 1, .stop_reason = StopReason::kDelete, .at = clock_.now()}});
  ASSERT_EQ(all("sandboxes", from).size(), 1u);
  EXPECT_EQ(all("sandboxes", from)[0].type, "DELETED");
  EXPECT_EQ(at(all("sandboxes", from)[0], "/status/phase"), "Terminating") << "its last state";
  ASSERT_EQ(all("processes", from).size(), 1u);
  EXPECT_EQ(at(all("processes", from)[0], "/metadata/name"), "sb-a-1");
  end(*open->process);
  ASSERT_EQ(all("processes", from).size(), 2u);
  EXPECT_EQ(all("processes", from)[1].type, "DELETED");
}

TEST_F(Changes, PositionsAreInCommitOrderUnderManyWriters) {
  constexpr int kWriters = 8;
  constexpr int kEach = 20;
  std::vector<std::jthread> threads;
  std::latch ready(kWriters + 1);
  for (int w = 0; w < kWriters; ++w)
    threads.emplace_back([&, w] {
      ready.arrive_and_wait();
      for (int i = 0; i < kEach; ++i)
        EXPECT_TRUE(sandboxes_.create(wanted("s" + std::to_string(w) + "-" + std::to_string(i))).has_value());
    });
  ready.arrive_and_wait();
  // A reader that goes on from what it has seen misses nothing, whoever commits when.
  std::set<std::string> seen;
  int64_t cursor = 0;
  const SystemClock real;
  const auto give_up = real.boot() + Seconds(60);
  while (seen.size() < kWriters * kEach && real.boot() < give_up) {
    auto page = catalog_.changes(ProjectId("web"), "sandboxes", cursor, 50);
    ASSERT_TRUE(page.has_value());
    for (const auto& change : page->changes)
      if (change.type == "ADDED") seen.insert(at(change, "/metadata/name"));
    cursor = page->last;
  }
  EXPECT_EQ(seen.size(), size_t{kWriters * kEach});
}

TEST_F(Changes, PagesWalkOverEverythingOnce) {
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(sandboxes_.create(wanted("s" + std::to_string(i))).has_value());
  std::vector<std::string> names;
  ListQuery query{.limit = 3, .after = "", .selector = {}};
  int pages = 0;
  do {
    const auto page = catalog_.sandboxes(ProjectId("web"), query);
    ASSERT_TRUE(page.has_value());
    for (const auto& item : page->items) names.push_back(item.sandbox.name);
    query.after = page->next;
    ++pages;
  } while (!query.after.empty());
  EXPECT_EQ(names, (std::vector<std::string>{"s0", "s1", "s2", "s3", "s4", "s5", "s6"}));
  EXPECT_EQ(pages, 3);
  EXPECT_EQ(catalog_.sandboxes(ProjectId("web"), {.limit = 7})->next, "") << "a full last page is the last";
  EXPECT_GT(catalog_.sandboxes(ProjectId("none"), {})->resource_version, 0)
      << "an empty list too can be watched";
}

TEST_F(Changes, SelectorsAreAnsweredByTheDatabaseAsInMemory) {
  const std::vector<std::map<std::string, std::string>> labels = {
      {{"app", "web"}, {"tier", "a"}}, {{"app", "web"}}, {{"app", "db"}, {"tier", "b"}}, {}};
  for (size_t i = 0; i < labels.size(); ++i) {
    auto one = wanted("s" + std::to_string(i));
    one.labels = labels[i];
    one.run = i != 1;
    ASSERT_TRUE(sandboxes_.create(one).has_value());
  }
  const auto everything = all("sandboxes");
  for (const std::string text :
       {"app=web", "app==web", "app!=web", "app in (web,db)", "app notin (web)", "tier", "!tier",
        "app=web,!tier", "app=none", "tier in (a,b),app notin (db)"})
    for (const std::string field :
         {"", "status.phase=Stopped", "status.phase!=Stopped", "metadata.name=s2"}) {
      Selector selector = fields(field, {"status.phase", "metadata.name"});
      selector.labels = *parse_label_selector(text);
      std::set<std::string> want;
      for (const auto& change : everything)
        if (matches(selector, json::parse(change.object).as_object()))
          want.insert(at(change, "/metadata/name"));
      std::set<std::string> have;
      const auto page = catalog_.sandboxes(ProjectId("web"), {.selector = selector});
      ASSERT_TRUE(page.has_value()) << page.error().message;
      for (const auto& item : page->items) have.insert(item.sandbox.name);
      EXPECT_EQ(have, want) << text << " " << field;
    }
}

TEST_F(Changes, EqualEventsAreCountedAndEachObjectKeepsItsLatest) {
  const auto sandbox = make_running("a");
  const auto tell = [&](const std::string& reason, const std::string& message) {
    clock_.advance(Seconds(1));
    ASSERT_TRUE(batcher_
                    .run({.key = "",
                          .input_hash = "",
                          .streams = {},
                          .decide = [&](eventlog::Unit& unit) -> Result<std::string> {
                            add_event(unit, ref_of(sandbox), EventType::kWarning, reason, message);
                            return "";
                          }})
                    .has_value());
  };
  tell("Near", "It ends soon.");
  tell("Near", "It ends soon.");
  const std::vector<std::string_view> supported{"reason", "involvedObject.name"};
  auto near = catalog_.events(ProjectId("web"), {.selector = fields("reason=Near", supported)});
  ASSERT_EQ(near->items.size(), 1u);
  EXPECT_EQ(near->items[0].count, 2);
  EXPECT_EQ(near->items[0].last - near->items[0].first, Seconds(1));
  EXPECT_EQ(near->items[0].object_name, "a");
  EXPECT_EQ(all("events").back().type, "MODIFIED");
  for (int i = 0; i < 120; ++i) tell("Many", "Number " + std::to_string(i));
  EXPECT_EQ(catalog_.events(ProjectId("web"), {})->items.size(), 100u);
  EXPECT_TRUE(
      catalog_.events(ProjectId("web"), {.selector = fields("reason=Near", supported)})->items.empty());
  EXPECT_TRUE(catalog_.events(ProjectId("other"), {})->items.empty());
  const auto one = catalog_.events(ProjectId("web"), {.limit = 1})->items[0];
  EXPECT_EQ(catalog_.event(ProjectId("web"), one.name)->uid, one.uid);
}

TEST_F(Changes, OldChangesAreDroppedUpToTheFloor) {
  const auto sandbox = make_running("a");
  ChangeKeeper keeper(batcher_, pool_, clock_,
                      {.age = Seconds(3600), .rows = 1000, .poll = std::chrono::hours(1)});
  const auto last = catalog_.changes(ProjectId("web"), "sandboxes", 0, 1000)->last;
  ASSERT_TRUE(keeper.step().has_value());
  EXPECT_EQ(catalog_.changes(ProjectId("web"), "sandboxes", 0, 1000)->floor, 1) << "nothing is old yet";
  clock_.advance(Seconds(3601));
  ASSERT_TRUE(keeper.step().has_value());
  auto page = catalog_.changes(ProjectId("web"), "sandboxes", 0, 1000);
  EXPECT_EQ(page->floor, last - 1) << "the last one stays, so that positions never go back";
  EXPECT_EQ(page->last, last);
  change(sandbox, DeleteSandbox{});
  EXPECT_GT(all("sandboxes").back().position, last);
  change(sandbox, RecordRelease{{.start = 1, .stop_reason = StopReason::kDelete, .at = clock_.now()}});
  EXPECT_FALSE(catalog_.events(ProjectId("web"), {})->items.empty());
  clock_.advance(std::chrono::hours(25));
  ASSERT_TRUE(keeper.step().has_value());
  EXPECT_TRUE(catalog_.events(ProjectId("web"), {})->items.empty()) << "a day after its end";
}

TEST_F(Changes, SandboxesFromBeforeVersionsGetOne) {
  const auto sandbox = make_running("a");
  ASSERT_TRUE(pool_
                  .with_tx([](pg::Tx& tx) -> Result<void> {
                    tx.exec("DELETE FROM sandbox_told");
                    tx.exec("UPDATE sandboxes SET phase = '', labels = '{}'");
                    return {};
                  })
                  .has_value());
  ChangeKeeper keeper(batcher_, pool_, clock_, {.poll = std::chrono::hours(1)});
  ASSERT_TRUE(keeper.step().has_value());
  EXPECT_GT(view("a").resource_version, 0);
  EXPECT_EQ(
      catalog_.sandboxes(ProjectId("web"), {.selector = fields("status.phase=Running", {"status.phase"})})
          ->items.size(),
      1u);
}

TEST_F(Changes, DryRunsAndOldVersionsKeepNothing) {
  auto dry = sandboxes_.with({.dry_run = true});
  const auto made = dry.create(wanted("a"));
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(made->sandbox.phase, Phase::kPending);
  EXPECT_EQ(catalog_.view(ProjectId("web"), "a").error().code, Code::kNotFound);
  EXPECT_TRUE(all("sandboxes").empty());
  const auto sandbox = make_running("a");
  const auto version = view("a").resource_version;
  EXPECT_EQ(dry.stop(sandbox)->phase, Phase::kStopping);
  EXPECT_EQ(dry.remove(sandbox)->phase, Phase::kTerminating);
  EXPECT_EQ(view("a").resource_version, version);
  EXPECT_EQ(sandboxes_.with({.resource_version = version - 1}).stop(sandbox).error().reason, "Conflict");
  EXPECT_EQ(view("a").sandbox.phase, Phase::kRunning);
  EXPECT_TRUE(sandboxes_.with({.resource_version = version}).stop(sandbox).has_value());
}

}  // namespace
}  // namespace nodus::lifecycle
