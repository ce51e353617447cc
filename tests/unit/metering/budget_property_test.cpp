// Random histories of two projects against a model that counts second by second. Facts come in order and
// deadlines fire on time; what the core computes from lines must be what the model counts.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/unit/metering/scenario.hpp"

namespace nodus::metering::test {
namespace {

using budget::Period;

constexpr MoneySecond kBegin = 1'801'440'000 - 150;  // 150 s before 2027-02-01T00:00:00Z
constexpr MoneySecond kMonth = 1'801'440'000;
constexpr int kSeconds = 400;
constexpr int kBoxes = 6;

struct Box {  // the model of a Sandbox
  SlotRef slot;
  int64_t rate = 0;
  int64_t start = 0;
  enum { kIdle, kFunded, kOpen } phase = kIdle;
  MoneySecond from = 0;
  int64_t paid = 0;   // of this start
  int64_t total = 0;  // of closed ones
  int64_t cap = 0;    // 0: none
  bool live = false;
};

struct Limit {  // the model of a Budget
  int64_t limit = 0;
  Period period = Period::kTotal;
  std::vector<int> thresholds;
  int reached = 0;
  bool exhausted = false;
};

class History {
 public:
  explicit History(unsigned seed) : random_(seed) {
    for (int i = 0; i < kBoxes; ++i) {
      boxes_[i].slot = slot(0, "u" + std::to_string(i));
      boxes_[i].slot.project = ProjectId(i < 4 ? "web" : "api");
      boxes_[i].rate = 9 * pick(1, 4);
    }
    context_.price = simple_price();
  }

  // Empty, or what differs.
  std::string run() {
    balance_ = pick(0, 1) == 0 ? pick(3'000, 30'000) : 10'000'000;
    on_account(PostCredit{OrgId("acme"), "g", "Grant", Money::from_pico(balance_), "t", std::nullopt},
               kBegin);
    for (MoneySecond t = kBegin; t < kBegin + kSeconds && fault_.empty(); ++t) {
      now_ = t;
      if (t == kMonth) month();
      fire(t);
      ends(t);
      check(t, "by the clock");
      const int actions = pick(0, 3) == 0 ? pick(1, 2) : 0;
      for (int i = 0; i < actions; ++i) act(t);
      fire(t);
      ends(t);
      check(t, "after what happened");
      balance_ends();
      tick();
    }
    for (auto& box : boxes_) {
      if (box.phase == Box::kOpen) release(box, kBegin + kSeconds);
      if (box.phase == Box::kFunded) lapse(box, kBegin + kSeconds);
    }
    for (const auto& [project, state] : budgets_)
      if (state.total.pending != Money() || state.rate != Rate() || state.total.base != Money() ||
          !state.exhaustions.empty() || state.held_open != Money() || state.held_funded != Money())
        differ("sums of " + project + " are left over");
    if (account_.pending != Money() || account_.rate != Rate() || account_.base != Money()) differ("account");
    return fault_;
  }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  void differ(const std::string& what) {
    if (fault_.empty()) fault_ = what + " at " + std::to_string(now_ - kBegin);
  }
  template <class Text>
  void same(Text model, Text core, const std::string& what) {
    if (model != core) differ(fmt_(what, model, core));
  }
  static std::string fmt_(const std::string& what, int64_t model, int64_t core) {
    return what + ": model " + std::to_string(model) + ", core " + std::to_string(core);
  }
  static std::string fmt_(const std::string& what, const std::string& model, const std::string& core) {
    return what + ": model " + model + ", core " + core;
  }

  // ---- the core, and the deadlines that its states ask for

  Events apply(const Command& command, MoneySecond at_s) {
    context_.now = to_instant(at_s);
    const auto& slot = slot_of(command);
    auto& charge = charges_[slot.uid.str()];
    auto& budget = budgets_[slot.project.str()];
    auto events = decide(charge, account_, budget, command, context_);
    EXPECT_TRUE(events) << events.error().message;
    for (const auto& event : events->charge) charge::evolve(charge, event);
    keep(*events, budget);
    return *events;
  }
  void keep(const Events& events, budget::State& budget) {
    for (const auto& event : events.account) account::evolve(account_, event);
    for (const auto& event : events.budget) {
      budget::evolve(budget, event);
      if (const auto* t = std::get_if<budget::ThresholdReached>(&event))
        told_.insert(t->name + " " + std::to_string(t->percent) + " " + std::to_string(t->at_s - kBegin));
      if (const auto* r = std::get_if<budget::Recovered>(&event))
        told_.insert(r->name + " recovered " + std::to_string(r->percent));
    }
  }
  void on_budget(const BudgetCommand& command, const std::string& project, MoneySecond at_s) {
    context_.now = to_instant(at_s);
    const auto events = decide(account_, budgets_[project], command, context_);
    ASSERT_TRUE(events) << events.error().message;
    keep(*events, budgets_[project]);
  }
  void on_account(const AccountCommand& command, MoneySecond at_s) {
    context_.now = to_instant(at_s);
    for (const auto& event : *decide(account_, command, context_)) account::evolve(account_, event);
  }
  void fire(MoneySecond t) {
    const Instant at = to_instant(t);
    for (const auto& box : boxes_) {
      const auto& current = charges_[box.slot.uid.str()].current;
      if (current && current->cap_s && *current->cap_s <= t && !current->capped &&
          current->phase == charge::Phase::kOpen)
        apply(JudgeMoney{current->slot, at}, t);
    }
    const auto end = account::ends_at(account_);
    const bool over = end && *end < t;
    if (over) on_account(JudgeBalance{OrgId("acme"), at}, t);
    for (const std::string project : {"web", "api"}) {
      auto& budget = budgets_[project];
      const auto due = budget::next_deadline(budget, Instant());
      if ((due && *due <= at) || !budget.exhaustions.empty())
        on_budget(JudgeBudget{OrgId("acme"), ProjectId(project), at}, project, t);
    }
    for (const auto& box : boxes_)
      if (box.phase == Box::kOpen && (over || pick(0, 1) == 0))
        apply(JudgeMoney{charges_[box.slot.uid.str()].current->slot, at}, t);
  }

  // ---- the model

  int64_t rates(const std::string& project) const {
    int64_t sum = 0;
    for (const auto& box : boxes_)
      if (box.live && (project.empty() || box.slot.project.str() == project)) sum += box.rate;
    return sum;
  }
  int64_t holds(const std::string& project, bool open_too) const {
    int64_t sum = 0;
    for (const auto& box : boxes_)
      if ((box.phase == Box::kFunded || (open_too && box.live)) &&
          (project.empty() || box.slot.project.str() == project))
        sum += box.rate * 75;
    return sum;
  }
  int64_t spent(const Limit& limit, const std::string& project) const {
    const auto& sums = limit.period == Period::kMonthly ? month_spent_ : spent_;
    const auto found = sums.find(project);
    return found == sums.end() ? 0 : found->second;
  }
  void month() {
    month_spent_.clear();
    for (auto& [name, limit] : limits_) {
      if (limit.period != Period::kMonthly) continue;
      limit.exhausted = false;
      if (limit.reached > 0) expected_.insert(name + " recovered 0");
      limit.reached = 0;
    }
  }
  // What ends at t: caps, then Budgets.
  void ends(MoneySecond t) {
    for (auto& box : boxes_)
      if (box.live && box.cap > 0 && box.total + box.paid + box.rate > box.cap) box.live = false;
    std::set<std::string> full;
    for (auto& [name, limit] : limits_) {
      const int64_t rate = rates("web");
      if (rate > 0 && spent(limit, "web") + holds("web", false) + rate > limit.limit) full.insert(name);
    }
    for (const auto& name : full) limits_[name].exhausted = true;
    if (!full.empty()) {
      for (auto& box : boxes_)
        if (box.slot.project.str() == "web") box.live = false;
    }
    for (auto& [name, limit] : limits_)
      for (const int percent : limit.thresholds)
        if (percent > limit.reached &&
            (limit.exhausted || spent(limit, "web") * 100 >= limit.limit * percent)) {
          limit.reached = percent;
          expected_.insert(name + " " + std::to_string(percent) + " " + std::to_string(t - kBegin));
        }
  }
  // The balance does not pay the second that begins. The core says so just after it began.
  void balance_ends() {
    if (rates("") == 0 || balance_ - used_ - holds("", false) >= rates("")) return;
    for (auto& box : boxes_) box.live = false;
  }
  void tick() {
    for (auto& box : boxes_) {
      if (!box.live) continue;
      box.paid += box.rate;
      used_ += box.rate;
      spent_[box.slot.project.str()] += box.rate;
      month_spent_[box.slot.project.str()] += box.rate;
    }
  }
  void check(MoneySecond t, const std::string& when) {
    same(std::string(""), difference(), "thresholds " + when);
    for (const auto& [name, limit] : limits_) {
      const auto* budget = budget::find(budgets_["web"], name);
      if (budget == nullptr) return differ("no Budget " + name);
      same(limit.limit - spent(limit, "web") - holds("web", true),
           static_cast<int64_t>(budget::available(budgets_["web"], *budget, t).pico()),
           "available of " + name + " " + when);
      same(int64_t{limit.exhausted}, int64_t{budget->exhausted_s.has_value()}, name + " exhausted " + when);
    }
  }
  std::string difference() {
    std::string text;
    for (const auto& word : expected_)
      if (!told_.contains(word)) text += " missing: " + word;
    for (const auto& word : told_)
      if (!expected_.contains(word)) text += " unexpected: " + word;
    expected_.clear();
    told_.clear();
    return text;
  }

  // ---- what happens

  void act(MoneySecond t) {
    auto& box = boxes_[pick(0, kBoxes - 1)];
    const int what = pick(0, 9);
    if (what < 2) return put(t);
    if (what == 2 && pick(0, 3) == 0) {
      const int64_t more = pick(100, 20'000);
      on_account(PostCredit{OrgId("acme"), "g" + std::to_string(t), "Grant", Money::from_pico(more), "t",
                            std::nullopt},
                 t);
      balance_ += more;
      return;
    }
    if (box.phase == Box::kIdle) return offer(box, t);
    if (box.phase == Box::kFunded) return pick(0, 4) == 0 ? lapse(box, t) : reserve(box, t);
    if (pick(0, 2) == 0) release(box, t);
  }
  void put(MoneySecond t) {
    const std::string name(1, static_cast<char>('a' + pick(0, 2)));
    Limit limit{pick(0, 4) == 0 ? pick(1, 3'000) : pick(2'000, 40'000),
                pick(0, 1) == 0 ? Period::kMonthly : Period::kTotal,
                {}};
    for (const int percent : {30, 50, 80, 100})
      if (pick(0, 1) == 0) limit.thresholds.push_back(percent);
    const auto known = limits_.find(name);
    if (known != limits_.end()) {
      if (pick(0, 4) == 0) {
        limits_.erase(known);
        return on_budget(DeleteBudget{OrgId("acme"), ProjectId("web"), name, "t"}, "web", t);
      }
      limit.period = known->second.period;
      limit.reached = known->second.reached;
    }
    const bool same_limit = known != limits_.end() && known->second.limit == limit.limit;
    const int64_t now = spent(limit, "web");
    limit.exhausted = same_limit ? known->second.exhausted : now >= limit.limit;
    if (limit.reached > 0 && now * 100 < limit.limit * limit.reached && !limit.exhausted) {
      int still = 0;
      for (const int percent : limit.thresholds)
        if (percent < limit.reached && now * 100 >= limit.limit * percent) still = percent;
      limit.reached = still;
      expected_.insert(name + " recovered " + std::to_string(still));
    }
    const bool create = known == limits_.end();
    limits_[name] = limit;
    on_budget(PutBudget{OrgId("acme"),
                        ProjectId("web"),
                        name,
                        "uid",
                        {Money::from_pico(limit.limit), limit.period, limit.thresholds},
                        "t",
                        create},
              "web", t);
    ends(t);
  }
  void offer(Box& box, MoneySecond t) {
    const int64_t hold = box.rate * 75;
    box.cap = pick(0, 2) == 0 ? box.total + pick(1, 200) * box.rate / 2 : 0;
    std::string wanted = "funded";
    const int64_t available = balance_ - used_ - holds("", true);
    int64_t least = 0;
    std::string tightest;
    if (box.slot.project.str() == "web")
      for (const auto& [name, limit] : limits_) {
        const int64_t left = limit.limit - spent(limit, "web") - holds("web", true);
        if (tightest.empty() || left < least) least = left, tightest = name;
      }
    if (available < hold)
      wanted = "balance " + std::to_string(std::max<int64_t>(available, 0));
    else if (box.cap > 0 && box.cap - box.total < hold)
      wanted = "maxCostUSD " + std::to_string(box.cap - box.total);
    else if (!tightest.empty() && least < hold)
      wanted = "budget/" + tightest + " " + std::to_string(std::max<int64_t>(least, 0));
    box.slot.start = ++box.start;
    const auto events =
        apply(JudgeOffer{box.slot,
                         "box",
                         {box.rate / 9 * 1000, 0, 0},
                         box.cap > 0 ? std::optional(Money::from_pico(box.cap)) : std::nullopt},
              t);
    std::string got = "nothing";
    for (const auto& event : events.charge) {
      if (std::holds_alternative<charge::StartFunded>(event)) got = "funded";
      if (const auto* no = std::get_if<charge::StartRefused>(&event))
        got = no->limit + " " + std::to_string(static_cast<int64_t>(no->available.pico()));
    }
    same(wanted, got, "offer");
    if (got == "funded") box.phase = Box::kFunded;
  }
  void lapse(Box& box, MoneySecond t) {
    apply(EndOffer{box.slot, to_instant(t)}, t);
    box.phase = Box::kIdle;
  }
  void reserve(Box& box, MoneySecond t) {
    apply(OpenCharge{box.slot, {.reserved = to_instant(t)}}, t);
    box.phase = Box::kOpen;
    box.from = t;
    box.paid = 0;
    box.live = true;
  }
  void release(Box& box, MoneySecond t) {
    const auto events =
        apply(CloseCharge{box.slot, {.reserved = to_instant(box.from), .released = to_instant(t)}}, t);
    for (const auto& event : events.charge)
      if (const auto* closed = std::get_if<charge::ChargeClosed>(&event))
        same(box.paid, static_cast<int64_t>(closed->amount.pico()), "charge of " + box.slot.uid.str());
    box.total += box.paid;
    box.live = false;
    box.phase = Box::kIdle;
  }

  std::mt19937 random_;
  Context context_;
  std::map<std::string, charge::State> charges_;
  account::State account_;
  std::map<std::string, budget::State> budgets_;
  Box boxes_[kBoxes];
  std::map<std::string, Limit> limits_;  // of project web
  std::map<std::string, int64_t> spent_, month_spent_;
  std::set<std::string> expected_, told_;
  int64_t balance_ = 0, used_ = 0;
  MoneySecond now_ = 0;
  std::string fault_;
};

TEST(BudgetProperty, LinesAreWhatSecondBySecondCounts) {
  for (unsigned seed = 1; seed <= 1'000; ++seed) {
    const auto fault = History(seed).run();
    ASSERT_EQ(fault, "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace nodus::metering::test
