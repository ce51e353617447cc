// Bills of spans, by project, Sandbox, day and reason, open intervals included.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "services/metering/adapters/postgres/bill.hpp"
#include "tests/integration/metering/world.hpp"

namespace nodus::metering::test {
namespace {

constexpr double kDay = 86'400;
constexpr double kMidnight = 16 * 3'600;  // of 2027-01-16, after kT0

class BillSpan : public ::testing::Test {
 protected:
  BillSpan() {
    world_.credit("1.00", "g1");
    world_.consume();
  }
  Bill read(BillQuery query) {
    query.org = OrgId("acme");
    auto bill = read_bill(world_.pool, query, world_.clock.now());
    EXPECT_TRUE(bill) << bill.error().message;
    return bill ? *bill : Bill();
  }
  // All pages of it, as one.
  Bill read_all(BillQuery query) {
    Bill all = read(query);
    for (std::string next = all.next; !next.empty();) {
      query.after = next;
      auto more = read(query);
      EXPECT_EQ(more.total, all.total);
      std::ranges::move(more.lines, std::back_inserter(all.lines));
      std::ranges::move(more.groups, std::back_inserter(all.groups));
      next = more.next;
    }
    return all;
  }
  void run(const std::string& uid, int64_t start, double from, double to, const std::string& cap = "") {
    world_.scheduler.offer(uid, start, cap);
    world_.scheduler.reserve(uid, start, from);
    world_.scheduler.release(uid, start, from, from + 1, to - 1, to);
  }

  World world_;
};

TEST_F(BillSpan, NoLineSpansMidnightAndTheDaysAddUp) {
  run("u1", 1, kMidnight - 10, kMidnight + kDay + 20);
  world_.await_all();
  world_.at(kMidnight + 2 * kDay);
  const auto lines = read({});
  ASSERT_EQ(lines.lines.size(), 5u);  // starting, running on three days, stopping
  EXPECT_EQ(lines.lines[1].line.to_s, kT0 + static_cast<MoneySecond>(kMidnight));
  const auto days = read({.by = BillBy::kDay});
  ASSERT_EQ(days.groups.size(), 3u);
  EXPECT_EQ(days.groups[0].amount.pico(), 9 * 10);
  EXPECT_EQ(days.groups[1].amount.pico(), 9 * 86'400);
  EXPECT_EQ(days.groups[2].amount.pico(), 9 * 20);
  EXPECT_EQ(days.total.pico(), 9 * (10 + 86'400 + 20));
  EXPECT_TRUE(world_.audited());
}

TEST_F(BillSpan, WhatIsOpenIsAsItWouldBeClosed) {
  // A cap of 300 s, a stop that began before midnight, and one that runs.
  world_.scheduler.offer("u1", 1, "0.000000002700");
  world_.scheduler.reserve("u1", 1, kMidnight - 100.5);
  world_.scheduler.started("u1", 1, kMidnight - 100.5, kMidnight - 90.2);
  world_.scheduler.offer("u2", 1);
  world_.scheduler.reserve("u2", 1, kMidnight - 50);
  world_.scheduler.started("u2", 1, kMidnight - 50, kMidnight - 40);
  world_.scheduler.stopping("u2", 1, kMidnight - 50, kMidnight - 40, kMidnight - 5.5);
  world_.scheduler.offer("u3", 1);
  world_.scheduler.reserve("u3", 1, kMidnight - 3);
  world_.await_all();
  world_.at(kMidnight + 400);
  world_.run_deadlines();
  const auto open = read({});
  world_.scheduler.release("u1", 1, kMidnight - 100.5, kMidnight - 90.2, kMidnight + 400, kMidnight + 400);
  world_.scheduler.release("u2", 1, kMidnight - 50, kMidnight - 40, kMidnight - 5.5, kMidnight + 400);
  world_.scheduler.release("u3", 1, kMidnight - 3, kMidnight + 500, kMidnight + 500, kMidnight + 400);
  world_.await_all();
  const auto closed = read({});
  EXPECT_EQ(open.total, closed.total);
  EXPECT_EQ(open.balance, closed.balance);
  ASSERT_EQ(open.lines.size(), closed.lines.size());
  for (size_t i = 0; i < open.lines.size(); ++i) {
    EXPECT_TRUE(open.lines[i].open);
    EXPECT_EQ(open.lines[i].line, closed.lines[i].line) << i;
    EXPECT_EQ(open.lines[i].reason, closed.lines[i].reason) << i;
    EXPECT_EQ(open.lines[i].ordinal, closed.lines[i].ordinal) << i;
    EXPECT_FALSE(closed.lines[i].open);
  }
  const auto reasons = read({.by = BillBy::kReason});
  ASSERT_EQ(reasons.groups.size(), 2u);
  EXPECT_EQ(reasons.groups[0].key, "Charged");
  EXPECT_EQ(reasons.groups[1].key, "MaxCostReached");
  EXPECT_EQ(reasons.groups[1].waived_seconds, 200);
  EXPECT_EQ(reasons.groups[1].amount, Money());
}

TEST(BillOfAnEndedBalance, IsTheSameBeforeAndAfterAnybodyIsTold) {
  World world;
  world.credit("0.000000000900", "g1");  // 100 s
  world.consume();
  world.scheduler.offer("u1", 1);
  world.scheduler.reserve("u1", 1, 10);
  world.await_all();
  world.at(200);
  const auto expect = [&](const std::string& when) {
    const auto bill = read_bill(world.pool, {.org = OrgId("acme"), .by = BillBy::kReason}, world.clock.now());
    ASSERT_TRUE(bill) << bill.error().message;
    EXPECT_EQ(bill->total.pico(), 900) << when;
    EXPECT_EQ(bill->balance, Money()) << when;
    ASSERT_EQ(bill->groups.size(), 2u) << when;
    EXPECT_EQ(bill->groups[1].key, "InsufficientCredits") << when;
    EXPECT_EQ(bill->groups[1].waived_seconds, 90) << when;
  };
  expect("untold");
  world.run_deadlines();
  expect("told");
  world.credit("1.00", "g2");
  EXPECT_EQ(world.text("SELECT era || ' ' || at_s FROM exhaustions"), "0 1800000110");
  world.scheduler.release("u1", 1, 10, 0, 0, 200);
  world.await_all();
  EXPECT_EQ(world.text("SELECT sum(amount) || ' ' || max(reason) FROM bill_lines"),
            "0.000000000900 InsufficientCredits");
  EXPECT_TRUE(world.audited());
}

// A line each, and how much of it: "Starting 10-20 Charged".
std::vector<std::string> told(const Bill& bill) {
  std::vector<std::string> out;
  for (const auto& line : bill.lines)
    out.push_back(std::string(to_string(line.line.kind)) + " " + std::to_string(line.line.from_s - kT0) +
                  "-" + std::to_string(line.line.to_s - kT0) + " " + line.reason);
  return out;
}

TEST_F(BillSpan, ABudgetIsTheCauseWhileAStartIsOpenAndAfter) {
  world_.put_budget("b", Money::from_pico(900));
  world_.scheduler.offer("u1", 1);
  world_.scheduler.reserve("u1", 1, 10);
  world_.await_all();
  world_.at(120);
  world_.run_deadlines();
  const std::vector<std::string> expected{"Starting 10-110 Charged", "Starting 110-120 BudgetExceeded"};
  EXPECT_EQ(told(read({})), expected);
  world_.credit("1.00", "g2");
  world_.put_budget("b", Money::from_pico(90'000), false);
  EXPECT_EQ(told(read({})), expected) << "raised too late";
  world_.scheduler.release("u1", 1, 10, 120, 120, 120);
  world_.await_all();
  EXPECT_EQ(told(read({})), expected);
  EXPECT_EQ(world_.text("SELECT string_agg(reason, ' ' ORDER BY reason) FROM bill_days"),
            "BudgetExceeded Charged");
  EXPECT_TRUE(world_.audited());
}

TEST_F(BillSpan, WhatThePlatformRestartedIsWaivedWhileItIsOpenAndAfter) {
  run("u1", 1, 10, 20);
  world_.scheduler.offer("u1", 2, "", "acme", true);
  world_.scheduler.reserve("u1", 2, 30);
  world_.scheduler.started("u1", 2, 30, 35);
  world_.scheduler.stopping("u1", 2, 30, 35, 45);
  world_.await_all();
  world_.at(50);
  const auto open = read({.from_s = kT0 + 25});
  EXPECT_EQ(told(open), (std::vector<std::string>{"Starting 30-35 PlatformRecovery", "Running 35-45 Charged",
                                                  "Stopping 45-50 PlatformRecovery"}));
  EXPECT_EQ(open.total.pico(), 90);
  world_.scheduler.release("u1", 2, 30, 35, 45, 50);
  world_.await_all();
  EXPECT_EQ(told(read({.from_s = kT0 + 25})), told(open));
  EXPECT_EQ(read({.from_s = kT0 + 25}).total.pico(), 90);
  EXPECT_TRUE(world_.audited());
}

TEST_F(BillSpan, APageHasNoLineTwiceAndMissesNoneWhileStartsClose) {
  for (int i = 0; i < 6; ++i) {
    world_.scheduler.offer("u" + std::to_string(i), 1);
    world_.scheduler.reserve("u" + std::to_string(i), 1, 10 + i);
  }
  world_.await_all();
  world_.at(100);
  std::set<std::string> seen;
  BillQuery query{.limit = 2};
  for (int page = 0; page < 3; ++page) {
    const auto bill = read(query);
    for (const auto& line : bill.lines) EXPECT_TRUE(seen.insert(line.uid.str()).second);
    query.after = bill.next;
    // Those on this page and the next are closed in between.
    for (const int i : {page * 2, page * 2 + 2})
      if (i < 6) world_.scheduler.release("u" + std::to_string(i), 1, 10 + i, 0, 0, 90);
    world_.await_all();
  }
  EXPECT_EQ(seen.size(), 6u);
  EXPECT_TRUE(query.after.empty());
}

TEST_F(BillSpan, AnySpanAddsUpInEveryGrouping) {
  std::mt19937 random(20'270'115);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::map<int64_t, std::pair<int64_t, int64_t>> spans;  // first second → [from, to)
  for (int box = 0; box < 8; ++box) {
    double at = pick(40'000);
    for (int start = 1; start <= 4; ++start) {
      const double from = at + pick(20'000), to = from + 3 + pick(start == 2 ? 200'000 : 3'000);
      run("u" + std::to_string(box), start, from, to);
      spans[static_cast<int64_t>(spans.size())] = {static_cast<int64_t>(from), static_cast<int64_t>(to)};
      at = to;
    }
  }
  world_.await_all();
  world_.at(10 * kDay);
  for (int round = 0; round < 8; ++round) {
    const int64_t from = pick(400'000), to = from + 1 + pick(round % 2 == 0 ? 400'000 : 3'000);
    int64_t seconds = 0;
    for (const auto& [_, span] : spans)
      seconds += std::max<int64_t>(0, std::min(span.second, to) - std::max(span.first, from));
    for (const auto by : {BillBy::kLine, BillBy::kProject, BillBy::kSandbox, BillBy::kDay, BillBy::kReason}) {
      const auto bill = read_all({.from_s = kT0 + from, .to_s = kT0 + to, .by = by, .limit = 3});
      EXPECT_EQ(bill.total.pico(), 9 * seconds) << to_string(by) << " of " << from << " to " << to;
      Money sum;
      for (const auto& group : bill.groups) sum += group.amount;
      for (const auto& line : bill.lines) sum += line.line.amount;
      EXPECT_EQ(sum, bill.total) << to_string(by) << " of " << from << " to " << to;
    }
  }
}

}  // namespace
}  // namespace nodus::metering::test
