#include "tests/unit/metering/scenario.hpp"

#include <fmt/core.h>

namespace nodus::metering::test {

namespace {

long long pico(Money money) {
  return static_cast<long long>(money.pico());
}
long long pico(Rate rate) {
  return static_cast<long long>(rate.pico_per_second());
}
MoneySecond rel(MoneySecond second) {
  return second - kT0;
}

struct Words {
  std::string operator()(const charge::StartFunded& e) const {
    return fmt::format("Funded {} rate {} hold {}", e.slot.start, pico(e.rate), pico(e.hold));
  }
  std::string operator()(const charge::StartRefused& e) const {
    return fmt::format("Refused {} {} {} hold {} available {}", e.slot.start, e.reason, e.limit, pico(e.hold),
                       pico(e.available));
  }
  std::string operator()(const charge::OfferReleased& e) const {
    return fmt::format("OfferReleased {}", e.slot.start);
  }
  std::string operator()(const charge::ChargeOpened& e) const {
    auto text = fmt::format("Opened {} from {}", e.slot.start, rel(e.from_s));
    if (e.cap_s) text += fmt::format(" cap {}", rel(*e.cap_s));
    return text;
  }
  std::string operator()(const charge::InstantsNoted& e) const {
    return fmt::format("Noted {}{}{}", e.slot.start, e.times.started ? " started" : "",
                       e.times.stopping ? " stopping" : "");
  }
  std::string operator()(const charge::CapReached& e) const {
    return fmt::format("CapReached {}", rel(e.at_s));
  }
  std::string operator()(const charge::CapRaised& e) const {
    return fmt::format("CapRaised {}{}", pico(e.max_cost),
                       e.cap_s ? fmt::format(" to {}", rel(*e.cap_s)) : "");
  }
  std::string operator()(const charge::PaidUntil& e) const {
    return fmt::format("PaidUntil {}", rel(e.at_s));
  }
  std::string operator()(const charge::StopOrdered& e) const {
    return fmt::format("StopOrdered {} {}", e.slot.start,
                       e.reason == charge::StopReason::kMaxCostReached   ? "MaxCost"
                       : e.reason == charge::StopReason::kBudgetExceeded ? "Budget"
                                                                         : "Credits");
  }
  std::string operator()(const charge::StopDeclined& e) const {
    return fmt::format("Declined {}", e.slot.start);
  }
  std::string operator()(const charge::ChargeClosed& e) const {
    auto text =
        fmt::format("Closed {} amount {} total {}", e.slot.start, pico(e.amount), pico(e.sandbox_total));
    for (const auto& line : e.lines)
      text += fmt::format(
          " {}[{},{}){}", to_string(line.kind), rel(line.from_s), rel(line.to_s),
          line.waived ? std::string(to_string(line.cause)) : "=" + std::to_string(pico(line.amount)));
    return text;
  }
  std::string operator()(const charge::StorageOpened& e) const {
    return fmt::format("Stored from {} {}", rel(e.from_s),
                       e.waived == Waiver::kUnsaid ? fmt::format("rate {}", pico(e.rate))
                                                   : std::string(to_string(e.waived)));
  }
  std::string operator()(const charge::StorageMetered& e) const {
    return fmt::format(
        "Metered [{},{}){}", rel(e.from_s), rel(e.to_s),
        e.waived == Waiver::kUnsaid ? fmt::format("={}", pico(e.amount)) : std::string(to_string(e.waived)));
  }
  std::string operator()(const account::CreditPosted& e) const {
    return fmt::format("Credit {}", pico(e.amount)) +
           (e.uncovered == Money() ? "" : fmt::format(" uncovered {}", pico(e.uncovered)));
  }
  std::string operator()(const account::CreditExpired& e) const {
    return fmt::format("Expired {} {} at {}", e.id, pico(e.amount), rel(e.at_s));
  }
  std::string operator()(const account::FirstPurchase&) const { return "FirstPurchase"; }
  std::string operator()(const account::HoldPlaced& e) const { return fmt::format("Hold {}", pico(e.hold)); }
  std::string operator()(const account::HoldFreed& e) const {
    return fmt::format("HoldFreed {}", pico(e.hold));
  }
  std::string operator()(const account::AccrualStarted& e) const {
    return fmt::format("Accrual {} from {}", pico(e.rate), rel(e.from_s));
  }
  std::string operator()(const account::AccrualFlattened& e) const {
    return fmt::format("Flattened at {}", rel(e.to_s));
  }
  std::string operator()(const account::LinesFlattened& e) const {
    return fmt::format("Flattened {} lines at {}", e.lines, rel(e.to_s));
  }
  std::string operator()(const account::BalanceExhausted& e) const {
    return fmt::format("Exhausted at {}", rel(e.at_s));
  }
  std::string operator()(const account::AccrualEnded& e) const {
    return fmt::format("Posted {}", pico(e.amount));
  }
  std::string operator()(const account::RefusalNoted& e) const {
    return fmt::format("Noted {}", pico(e.hold));
  }
  std::string operator()(const account::FundsChanged&) const { return "FundsChanged"; }
  std::string operator()(const budget::BudgetSet& e) const {
    return fmt::format("Set {} {}", e.name, pico(e.spec.limit));
  }
  std::string operator()(const budget::BudgetDeleted& e) const { return "Deleted " + e.name; }
  std::string operator()(const budget::BudgetExhausted& e) const {
    return fmt::format("{} exhausted at {}", e.name, rel(e.at_s));
  }
  std::string operator()(const budget::ThresholdReached& e) const {
    return fmt::format("{} reached {} at {} with {}", e.name, e.percent, rel(e.at_s), pico(e.spent));
  }
  std::string operator()(const budget::Recovered& e) const {
    return fmt::format("{} recovered to {} at {} with {}", e.name, e.percent, rel(e.at_s), pico(e.spent));
  }
  std::string operator()(const budget::RefusalNoted& e) const {
    return fmt::format("Budget noted {}", pico(e.hold));
  }
  std::string operator()(const budget::FundsChanged&) const { return "BudgetFundsChanged"; }
  template <class Sums>
  std::string operator()(const Sums&) const {
    return "";
  }
};

}  // namespace

std::string describe(const charge::Event& event) {
  return std::visit(Words(), event);
}
std::string describe(const account::Event& event) {
  return std::visit(Words(), event);
}

std::string describe(const budget::Event& event) {
  return std::visit(Words(), event);
}

std::vector<std::string> Scenario::run(const Step& step) {
  context.now = at(step.now);
  if (!context.price) context.price = simple_price();
  std::vector<std::string> words;
  const auto keep = [&](const Events& events, budget::State& budget) {
    for (const auto& event : events.account) {
      account::evolve(account_, event);
      words.push_back(describe(event));
    }
    for (const auto& event : events.budget) {
      budget::evolve(budget, event);
      if (auto said = describe(event); !said.empty()) words.push_back(std::move(said));
    }
    return words;
  };
  if (const auto* command = std::get_if<BudgetCommand>(&step.command)) {
    auto& budget = budgets_[std::visit([](const auto& c) { return c.project.str(); }, *command)];
    const auto events = decide(account_, budget, *command, context);
    if (!events) return {"error " + events.error().reason};
    return keep(*events, budget);
  }
  if (const auto* command = std::get_if<Command>(&step.command)) {
    auto& charge = charges_[slot_of(*command).uid.str()];
    auto& budget = budgets_[slot_of(*command).project.str()];
    const auto events = decide(charge, account_, budget, *command, context);
    if (!events) return {"error " + events.error().reason};
    for (const auto& event : events->charge) {
      charge::evolve(charge, event);
      words.push_back(describe(event));
    }
    return keep(*events, budget);
  }
  const auto events = decide(account_, std::get<AccountCommand>(step.command), context);
  if (!events) return {"error " + events.error().reason};
  for (const auto& event : *events) {
    account::evolve(account_, event);
    words.push_back(describe(event));
  }
  return words;
}

}  // namespace nodus::metering::test
