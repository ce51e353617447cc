// A random history over month ends, told three ways (bills, invoices, exports) and judged by
// finance_oracle.py, which knows only the scheduler's facts and the published rules of FOCUS.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "nodus/scheduler/v1/events.pb.h"
#include "services/metering/adapters/http/bill_route.hpp"
#include "services/metering/adapters/http/export_format.hpp"
#include "services/metering/adapters/http/invoice_routes.hpp"
#include "services/metering/adapters/postgres/invoices.hpp"
#include "tests/integration/metering/world.hpp"

namespace nodus::metering::test {
namespace {

namespace json = boost::json;
namespace pb = nodus::scheduler::v1;

constexpr int64_t kFebruary = 1'440'000;  // 2027-02-01T00:00:00Z, after kT0
constexpr int64_t kMarch = kFebruary + 28 * 86'400;

struct Fact {
  std::string uid, project, name;
  std::map<std::string, std::string> labels;
  int64_t cpu_milli = 1'000;
  std::string cap;
  int64_t reserved = 0, started = 0, stopping = 0, released = 0;  // µs after kT0
  int heard = -1;       // how many months were closed when the release was heard; -1: never
  int64_t saved = -1;   // bytes that are stored from then on; -1: nothing
  int64_t dropped = 0;  // µs after kT0: the Sandbox was deleted
  int drop_heard = -1;
};

class Finance : public ::testing::Test {
 protected:
  Finance() {
    world_.credit("1000000.00", "g1");
    world_.consume();
    std::filesystem::create_directory(directory_);
  }
  ~Finance() override { std::filesystem::remove_all(directory_); }

  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  int64_t micros(int64_t after) { return kT0 * 1'000'000 + after; }

  template <class Message>
  Message about(const Fact& fact) {
    Message message;
    auto* slot = message.mutable_slot();
    slot->set_sandbox_uid(fact.uid);
    slot->set_start(1);
    slot->set_epoch(1);
    slot->set_org("acme");
    slot->set_project(fact.project);
    return message;
  }
  template <class Message>
  void publish(const Message& message) {
    world_.scheduler.raw("slot/" + message.slot().sandbox_uid(),
                         std::string(Message::descriptor()->full_name()), message.SerializeAsString());
  }

  void begin(Fact& fact) {
    auto offer = about<pb::SlotOffered>(fact);
    offer.mutable_shape()->set_cpu_milli(fact.cpu_milli);
    offer.mutable_shape()->set_memory_bytes(1LL << 29);
    offer.set_sandbox_name(fact.name);
    offer.set_max_cost_usd(fact.cap);
    offer.mutable_labels()->insert(fact.labels.begin(), fact.labels.end());
    publish(offer);
    auto started = about<pb::SandboxStarted>(fact);
    auto reserved = about<pb::SlotReserved>(fact);
    reserved.mutable_times()->set_reserved_at_us(micros(fact.reserved));
    publish(reserved);
    started.mutable_times()->set_reserved_at_us(micros(fact.reserved));
    started.mutable_times()->set_started_at_us(micros(fact.started));
    publish(started);
  }
  void end(Fact& fact, int closed) {
    auto message = about<pb::SlotReleased>(fact);
    auto* times = message.mutable_times();
    times->set_reserved_at_us(micros(fact.reserved));
    times->set_started_at_us(micros(fact.started));
    times->set_stopping_at_us(micros(fact.stopping));
    times->set_released_at_us(micros(fact.released));
    if (pick(4) > 0) {
      fact.saved = pick(2) == 0 ? pick(5) * (1LL << 30) : static_cast<int64_t>(random_());
      message.mutable_restore_point()->set_size_bytes(fact.saved);
    }
    publish(message);
    fact.heard = closed;
  }
  void drop(Fact& fact, int64_t now, int closed) {
    auto message = about<pb::RestorePointReleased>(fact);
    fact.dropped = fact.released + (now * 1'000'000 - fact.released) / 100 * pick(101);
    message.set_at_us(micros(fact.dropped));
    publish(message);
    fact.drop_heard = closed;
  }
  // From `now` on, in seconds after kT0: some begin, some end, some are said to have ended long ago.
  void live(int64_t now, int64_t until, int closed) {
    for (int i = 0; i < 14; ++i) {
      now += (until - now) * pick(20) / 100;
      world_.at(static_cast<double>(now) + 0.5);
      const auto n = std::to_string(facts_.size());
      Fact fact{.uid = "u" + n, .project = pick(3) == 0 ? "acme/api" : "acme/web", .name = "box-" + n};
      fact.cpu_milli = 250 * (1 + pick(8));
      if (pick(3) > 0) fact.labels["team"] = pick(2) == 0 ? "web" : "=SUM(A1),\"x\"\n";
      if (pick(4) == 0) fact.cap = "0.0000" + std::to_string(10'000 + pick(80'000));
      fact.reserved = now * 1'000'000 + pick(1'000'000);
      fact.started = fact.reserved + 1 + pick(9'000'000);
      begin(fact);
      facts_.push_back(fact);
      auto& some = facts_[static_cast<size_t>(pick(static_cast<int>(facts_.size())))];
      if (some.saved >= 0 && some.drop_heard < 0 && pick(2) == 0) drop(some, now, closed);
      if (some.heard >= 0 || pick(2) == 0) continue;
      some.released = some.started + (now * 1'000'000 - some.started) / 100 * pick(101);
      if (some.released <= some.started) some.released = some.started + 1;
      some.stopping = some.released - pick(3) * 1'000'000;
      end(some, closed);
    }
    world_.await_all();
    world_.run_deadlines();
  }

  void write(const std::string& name, const std::string& text) { std::ofstream(directory_ / name) << text; }
  http::Request request(std::multimap<std::string, std::string> query, const std::string& number = "") {
    http::Request out{.method = "GET", .query = std::move(query), .params = {{"number", number}}};
    out.headers.set("X-Nodus-Identity", http::sign_identity({OrgId("acme"), ProjectId(), "k", "billing"},
                                                            "secret", world_.clock.now()));
    return out;
  }
  std::string exported(Month month, ExportFormat format, int page) {
    ExportReader reader(world_.pool, OrgId("acme"), month, world_.clock.now(), page);
    std::string text = export_head(format);
    for (;;) {
      const auto rows = reader.next();
      EXPECT_TRUE(rows) << rows.error().message;
      if (!rows || rows->empty()) return text;
      for (const auto& row : *rows)
        add_row(format, {OrgId("acme"), month, "NODUS", reader.invoice()}, row, text);
    }
  }
  void write_facts() {
    json::array facts;
    for (const auto& f : facts_) {
      json::object labels;
      for (const auto& [key, value] : f.labels) labels[key] = value;
      facts.push_back({{"uid", f.uid},
                       {"project", f.project},
                       {"name", f.name},
                       {"labels", labels},
                       {"cpuMilli", f.cpu_milli},
                       {"cap", f.cap},
                       {"reserved", micros(f.reserved)},
                       {"started", micros(f.started)},
                       {"stopping", f.heard < 0 ? 0 : micros(f.stopping)},
                       {"released", f.heard < 0 ? 0 : micros(f.released)},
                       {"heard", f.heard},
                       {"saved", f.saved},
                       {"dropped", f.drop_heard < 0 ? 0 : micros(f.dropped)},
                       {"dropHeard", f.drop_heard}});
    }
    write("facts.json", json::serialize(facts));
  }

  static unsigned seed() {  // of the one history of a usual run, or of another that is looked for
    const char* given = std::getenv("NODUS_SEED");
    return given != nullptr ? static_cast<unsigned>(std::stoul(given)) : 1'234;
  }

  World world_;
  std::mt19937 random_{seed()};
  std::vector<Fact> facts_;
  const std::filesystem::path directory_ =
      std::filesystem::path(testing::TempDir()) / ("nodus-finance-" + std::to_string(::getpid()));
};

TEST_F(Finance, BillsInvoicesAndExportsAreWhatTheFactsSay) {
  const BillDeps deps{world_.clock, world_.pool, "secret"};
  live(100, kFebruary, 0);
  world_.at(kFebruary + 1'000);
  ASSERT_TRUE(close_months(world_.pool, OrgId("acme"), 202701, "NODUS", world_.clock.now()));
  live(kFebruary + 2'000, kMarch - 50'000, 1);
  world_.at(kMarch + 1'000);
  ASSERT_TRUE(close_months(world_.pool, OrgId("acme"), 202702, "NODUS", world_.clock.now()));
  live(kMarch + 2'000, kMarch + 10 * 86'400, 2);

  json::array bills;
  for (int i = 0; i < 40; ++i) {
    const std::vector<std::string> groups{"project", "sandbox", "day", "reason", "line", "label:team"};
    std::multimap<std::string, std::string> query{{"by", groups[static_cast<size_t>(pick(6))]},
                                                  {"limit", "1000"}};
    if (pick(4) == 0) query.emplace("label", "team=web");
    if (pick(4) == 0) query.emplace("project", "web");
    const int64_t from = kT0 + pick(5'000'000);
    if (pick(3) > 0) query.emplace("from", to_rfc3339(to_instant(from)));
    if (pick(3) > 0) query.emplace("to", to_rfc3339(to_instant(from + 1 + pick(2'000'000))));
    const auto answer = answer_bill(deps, request(query), BillScope::kOrganization);
    ASSERT_EQ(answer.status, 200) << answer.body;
    json::object asked;
    for (const auto& [key, value] : query) asked[key] = value;
    bills.push_back({{"query", asked}, {"answer", json::parse(answer.body)}});
  }
  write("bills.json", json::serialize(bills));
  json::array invoices;
  for (const char* number : {"NODUS-00000001", "NODUS-00000002"})
    invoices.push_back(json::parse(answer_invoice(deps, request({}, number)).body));
  write("invoices.json", json::serialize(invoices));
  for (const Month month : {202701, 202702, 202703}) {
    const auto focus = exported(month, ExportFormat::kFocus, 3);
    EXPECT_EQ(focus, exported(month, ExportFormat::kFocus, 2'000)) << "pages change nothing";
    write("focus-" + std::to_string(month) + ".csv", focus);
    write("lines-" + std::to_string(month) + ".csv", exported(month, ExportFormat::kCsv, 500));
  }
  write_facts();
  const std::string oracle = NODUS_SOURCE_DIR "/tests/integration/metering/finance_oracle.py";
  EXPECT_EQ(std::system(("/usr/bin/python3 " + oracle + " " + directory_.string()).c_str()), 0);
  EXPECT_TRUE(world_.audited());
}

}  // namespace
}  // namespace nodus::metering::test
