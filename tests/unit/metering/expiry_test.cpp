// Grants that expire: what is unused leaves at the instant, exactly, in whatever order credits are used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "services/metering/domain/lots.hpp"
#include "tests/unit/metering/scenario.hpp"

namespace nodus::metering::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

Step grant(double now, int64_t pico, const std::string& id, MoneySecond expires,
           int priority = account::kDefaultPriority) {
  PostCredit command{OrgId("acme"), id, "Grant", Money::from_pico(pico), "test"};
  command.expires_s = kT0 + expires;
  command.priority = priority;
  return {now, AccountCommand(std::move(command))};
}

TEST(Expiry, WhatIsUnusedLeavesAtTheInstant) {
  Scenario scenario;
  scenario.run(grant(0, 500, "g1", 100));
  EXPECT_THAT(scenario.run(judge_balance(99)), IsEmpty());
  EXPECT_THAT(scenario.run(judge_balance(100)), ElementsAre("Expired g1 500 at 100"));
  EXPECT_THAT(scenario.run(judge_balance(101)), IsEmpty());
  EXPECT_EQ(account::balance(scenario.account()), Money());
}

TEST(Expiry, WhatWasUsedByThenStays) {
  Scenario scenario;
  scenario.run(credit(0, 100'000, "p1", std::nullopt, "Purchase"));
  scenario.run(grant(0, 1'000, "g1", 100));
  scenario.run(offer(1, slot(1)));
  scenario.run(reserve(10, slot(1), 10));
  // 90 seconds at 9 came from the Grant, since it expires first.
  EXPECT_THAT(scenario.run(judge_balance(500)), ElementsAre("Expired g1 190 at 100"));
}

TEST(Expiry, ThePriorityGoesBeforeTheInstant) {
  Scenario scenario;
  scenario.run(grant(0, 1'000, "soon", 60));
  scenario.run(grant(0, 1'000, "first", 200, 1));
  scenario.run(offer(1, slot(1)));
  scenario.run(reserve(10, slot(1), 10));
  EXPECT_THAT(scenario.run(judge_balance(60)), ElementsAre("Expired soon 1000 at 60"));
}

TEST(Expiry, ALineThatLivesOnAGrantEndsWithIt) {
  Scenario scenario;
  scenario.run(grant(0, 1'000, "g1", 60));
  scenario.run(offer(1, slot(1)));
  scenario.run(reserve(10, slot(1), 10));
  EXPECT_EQ(account::stop_at(scenario.account(), Seconds(15)), kT0 + 45);
  EXPECT_EQ(account::money_ends_at(scenario.account()), kT0 + 60);
  const auto words = scenario.run(judge_balance(61));
  EXPECT_THAT(words, ElementsAre("Expired g1 550 at 60", "Exhausted at 60"));
}

TEST(Expiry, WhatAFundedStartHoldsGoesWhenItLetsGo) {
  Scenario scenario;
  scenario.run(grant(0, 1'000, "g1", 60));
  scenario.run(offer(1, slot(1)));  // holds 675
  EXPECT_THAT(scenario.run(judge_balance(60)), ElementsAre("Expired g1 325 at 60"));
  EXPECT_THAT(scenario.run(judge_balance(70)), IsEmpty());
  scenario.run(lapse(80, slot(1)));
  EXPECT_THAT(scenario.run(judge_balance(80)), ElementsAre("Expired g1 675 at 80"));
}

TEST(Expiry, WhatAHoldKeepsMovesNoEndIntoThePast) {
  Scenario scenario;
  scenario.run(grant(0, 2'000, "g1", 60));
  scenario.run(offer(1, slot(1)));  // 675 each
  scenario.run(offer(1, slot(1, "u2")));
  EXPECT_THAT(scenario.run(judge_balance(60)), ElementsAre("Expired g1 650 at 60"));
  scenario.run(reserve(70, slot(1, "u2"), 70));
  EXPECT_THAT(scenario.run(judge_balance(70)), ElementsAre("Expired g1 675 at 70"));
  EXPECT_EQ(account::money_ends_at(scenario.account()), kT0 + 70)
      << "what the first start holds stays its own";
}

TEST(Expiry, NoStartIsFundedByWhatHasExpired) {
  Scenario scenario;
  scenario.run(grant(0, 1'000, "g1", 60));
  EXPECT_THAT(scenario.run(offer(60, slot(1))),
              Contains("Refused 1 InsufficientCredits balance hold 675 available 0"));
}

TEST(Expiry, TooManyGrantsAreRefused) {
  Scenario scenario;
  for (size_t i = 0; i < account::kMaxExpiring; ++i)
    scenario.run(grant(0, 10, "g" + std::to_string(i), 100 + static_cast<int>(i)));
  EXPECT_THAT(scenario.run(grant(1, 10, "more", 500)), ElementsAre("error TooManyGrants"));
  scenario.run(judge_balance(100));
  EXPECT_THAT(scenario.run(grant(101, 10, "more", 500)), Contains("Credit 10"));
}

// A start was charged less than was thought when a Grant expired, and the difference was taken away by hand:
// what is used later comes from the lots again.
TEST(Expiry, WhatIsTakenBackOfADifferenceIsNotMadeUpForAgain) {
  Scenario scenario;
  scenario.run(grant(0, 1'000, "g1", 150));
  scenario.run(offer(1, slot(1)));
  scenario.run(reserve(100, slot(1), 100));
  EXPECT_THAT(scenario.run(judge_balance(151)), ElementsAre("Expired g1 550 at 150", "Exhausted at 150"));
  scenario.run(release(152, slot(1), {.reserved = at(100), .released = at(120)}));  // lost: 180 of 450
  ASSERT_EQ(account::balance(scenario.account()).pico(), 270);
  EXPECT_THAT(scenario.run(credit(160, -270, "a1", std::nullopt, "Adjustment")), Contains("Credit -270"));
  scenario.run(credit(170, 10'000, "p1", std::nullopt, "Purchase"));
  scenario.run(grant(170, 1'000, "g2", 300));
  scenario.run(offer(171, slot(2)));
  scenario.run(reserve(200, slot(2), 200));
  scenario.run(release(230, slot(2), {.reserved = at(200), .released = at(230)}));  // 270, of g2
  EXPECT_THAT(scenario.run(judge_balance(300)), ElementsAre("Expired g2 730 at 300"));
  EXPECT_EQ(account::balance(scenario.account()).pico(), 10'000);
}

// A second by second account of one Sandbox, as a person would keep it on paper.
struct Paper {
  struct Lot {
    int priority;
    int64_t expires;
    int64_t age;
    std::string id;
    int64_t left;
  };
  std::vector<Lot> lots;
  std::map<std::string, int64_t> expired;
  int64_t spent = 0;

  int64_t balance() const {
    int64_t sum = 0;
    for (const auto& lot : lots) sum += lot.left;
    return sum;
  }
  void expire(int64_t now) {
    for (auto& lot : lots)
      if (lot.expires == now && lot.left > 0) {
        expired[lot.id] += lot.left;
        lot.left = 0;
      }
  }
  bool pay(int64_t amount) {  // one second; false: the balance does not cover it
    if (balance() < amount) return false;
    std::ranges::sort(lots, {}, [](const Lot& l) { return std::tuple(l.priority, l.expires, l.age); });
    for (auto& lot : lots) {
      const int64_t taken = std::min(lot.left, amount);
      lot.left -= taken;
      amount -= taken;
      spent += taken;
    }
    return true;
  }
};

TEST(Expiry, EqualsAnAccountKeptOnPaperSecondBySecond) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](int64_t low, int64_t high) {
      return static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1)) + low;
    };
    Scenario scenario;
    Paper paper;
    std::map<std::string, int64_t> expired;
    bool open = false, paid = false;
    int64_t start = 0, from = 0, age = 0;
    const auto see = [&](const std::vector<std::string>& words) {
      for (const auto& word : words) {
        ASSERT_FALSE(word.starts_with("error")) << word;
        char id[32];
        long long amount = 0;
        if (std::sscanf(word.c_str(), "Expired %31s %lld", id, &amount) == 2 && amount > 0)
          expired[id] += amount;
      }
    };
    for (int64_t t = 0; t < 400; ++t) {
      paper.expire(t);
      if (pick(0, 14) == 0) {
        const auto id = "c" + std::to_string(t);
        const int64_t amount = pick(1, 1'500);
        const int64_t expires = pick(0, 3) == 0 ? 0 : t + pick(1, 120);
        const int priority = static_cast<int>(pick(4, 6));
        if (expires == 0) {
          see(scenario.run(credit(static_cast<double>(t), amount, id)));
          paper.lots.push_back({5, 1 << 30, age++, id, amount});
        } else {
          see(scenario.run(grant(static_cast<double>(t), amount, id, expires, priority)));
          paper.lots.push_back({priority, expires, age++, id, amount});
        }
      }
      if (!open && pick(0, 9) == 0) {
        const auto words = scenario.run(offer(static_cast<double>(t), slot(++start)));
        see(words);
        if (words.front().starts_with("Funded")) {
          see(scenario.run(reserve(static_cast<double>(t), slot(start), static_cast<double>(t))));
          open = paid = true;
          from = t;
        }
      } else if (open && t > from && pick(0, 29) == 0) {
        see(scenario.run(
            release(static_cast<double>(t), slot(start),
                    {.reserved = at(static_cast<double>(from)), .released = at(static_cast<double>(t))})));
        open = false;
      }
      if (pick(0, 7) == 0) see(scenario.run(judge_balance(static_cast<double>(t))));
      if (open && paid) paid = paper.pay(9);
    }
    if (open)
      see(scenario.run(
          release(400, slot(start), {.reserved = at(static_cast<double>(from)), .released = at(400)})));
    paper.expire(400);
    see(scenario.run(judge_balance(400)));
    ASSERT_EQ(static_cast<int64_t>(account::balance(scenario.account()).pico()), paper.balance())
        << "seed " << seed;
    ASSERT_EQ(static_cast<int64_t>(scenario.account().charged.pico()), paper.spent) << "seed " << seed;
    ASSERT_EQ(expired, paper.expired) << "seed " << seed;
  }
}

// Whatever happens, starts that turn out to have ended earlier and credit that is taken back included: what
// lies in the lots and what was used of them is what was credited, so no dollar of a credit is lost or used
// twice.
TEST(Expiry, LotsAndWhatWasUsedOfThemAreTheCredits) {
  int64_t losses = 0, taken_back = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](int64_t low, int64_t high) {
      return static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1)) + low;
    };
    Scenario scenario;
    std::map<std::string, std::pair<int64_t, double>> open;  // start and since when, by Sandbox
    std::map<std::string, int64_t> starts;
    for (double t = 1; t < 300; t += static_cast<double>(pick(1, 8))) {
      const std::string uid = "u" + std::to_string(pick(1, 3));
      const std::string id = "c" + std::to_string(static_cast<int>(t));
      switch (pick(0, 5)) {
        case 0:
          scenario.run(grant(t, pick(500, 3'000), id, static_cast<MoneySecond>(t) + pick(5, 90),
                             static_cast<int>(pick(4, 6))));
          break;
        case 1:
          scenario.run(credit(t, pick(500, 3'000), id, std::nullopt, "Purchase"));
          break;
        case 2: {
          const auto available = account::available(scenario.account(), kT0 + static_cast<MoneySecond>(t));
          const auto most = static_cast<int64_t>(available.pico());
          if (most <= 0) break;
          const int64_t amount = pick(0, 1) == 0 ? most : pick(1, most);
          const auto words = scenario.run(credit(t, -amount, id, std::nullopt, "Adjustment"));
          taken_back += !words.empty() && words.front().starts_with("Credit -");
          break;
        }
        case 3:
          if (open.contains(uid)) break;
          if (!scenario.run(offer(t, slot(++starts[uid], uid))).front().starts_with("Funded")) break;
          scenario.run(reserve(t, slot(starts[uid], uid), t));
          open[uid] = {starts[uid], t};
          break;
        case 4: {
          const auto line = open.find(uid);
          if (line == open.end()) break;
          const auto [start, since] = line->second;
          const double ended =
              pick(0, 1) == 0 ? t : since + static_cast<double>(pick(0, static_cast<int64_t>(t - since)));
          losses += ended < t;
          scenario.run(release(t, slot(start, uid), {.reserved = at(since), .released = at(ended)}));
          open.erase(line);
          break;
        }
        default:
          scenario.run(judge_balance(t));
      }
      const auto& account = scenario.account();
      Money in_lots;
      for (const auto& lot : account.lots) in_lots += lot.left;
      ASSERT_EQ(in_lots.pico(), (account.credits - account.used_up).pico()) << "seed " << seed << " at " << t;
      ASSERT_GE(account::balance(account), Money()) << "seed " << seed << " at " << t;
    }
  }
  EXPECT_GT(losses, 300);
  EXPECT_GT(taken_back, 300);
}

}  // namespace
}  // namespace nodus::metering::test
