// Runs a history of facts, one a line on stdin, through codec, decisions and states, and prints what came of
// it. Deadlines fire by themselves at their instants, as the service's thread would. oracle.py writes the
// facts and recomputes the outcome in another way.
//
//   P version effective_us cpu memory disk [storage]  a price version
//   C now_us org id amount [priority expires_s]       a credit (0: never), or below zero an Adjustment
//   O now_us uid start org milli memory disk cap|- [recovery]   SlotOffered
//   L now_us uid start org at_us                      OfferLapsed
//   D now_us uid start org                            StopDeclined; its money is judged at once
//   M now_us uid start org cap                        MaxCostRaised
//   N now_us                                          nothing but time
//   B now_us org name limit Monthly|Total 50,80,100   a Budget of project p is made or changed
//   R|S|T|E now_us uid start org reserved started stopping released [saved]   SlotReserved, SandboxStarted,
//                                                     SlotStopping, SlotReleased; 0: not known
//   K now_us uid start org at_us                      RestorePointReleased
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include "libs/base/check.hpp"
#include "nodus/scheduler/v1/events.pb.h"
#include "services/metering/adapters/codec/codec.hpp"
#include "services/metering/domain/lots.hpp"

namespace nodus::metering {
namespace {

namespace pb = nodus::scheduler::v1;

class Replay {
 public:
  void line(const std::string& text) {
    std::istringstream in(text);
    char kind = 0;
    in >> kind;
    if (kind == 'P') return price(in);
    int64_t now_us = 0;
    in >> now_us;
    fire_deadlines(from_micros(now_us));
    context_.now = from_micros(now_us);
    if (kind == 'N') return;
    fact(kind, in, text);
    judge_storage();
  }

  void fact(char kind, std::istringstream& in, const std::string& text) {
    if (kind == 'C') return credit(in);
    if (kind == 'B') return put_budget(in);
    std::string uid, org;
    int64_t start = 0;
    in >> uid >> start >> org;
    if (kind == 'O') return run(offered(in, uid, start, org));
    if (kind == 'L') return run(over<pb::OfferLapsed>(in, uid, start, org));
    if (kind == 'R') return run(timed<pb::SlotReserved>(in, uid, start, org));
    if (kind == 'S') return run(timed<pb::SandboxStarted>(in, uid, start, org));
    if (kind == 'D') return declined(uid, start, org);
    if (kind == 'M') return run(raised(in, uid, start, org));
    if (kind == 'T') return run(timed<pb::SlotStopping>(in, uid, start, org));
    if (kind == 'K') return run(over<pb::RestorePointReleased>(in, uid, start, org));
    CHECK(kind == 'E', "fact {}", text);
    run(timed<pb::SlotReleased>(in, uid, start, org));
  }

  void finish() {
    for (const auto& [project, budget] : budgets_)
      std::cout << "project " << project << ' ' << budget.total.spent.to_decimal() << ' '
                << budget.total.pending.to_decimal() << ' ' << budget.rate.to_decimal() << ' '
                << budget.held_open.to_decimal() << '\n';
    for (const auto& [org, account] : accounts_)
      std::cout << "account " << org << ' ' << account.credits.to_decimal() << ' '
                << account.charged.to_decimal() << ' ' << account.pending.to_decimal() << ' '
                << account.rate.to_decimal() << ' ' << account.held_funded.to_decimal() << ' '
                << account.held_open.to_decimal() << '\n';
  }

 private:
  void price(std::istringstream& in) {
    std::string version, cpu, memory, disk, storage;
    int64_t effective_us = 0;
    in >> version >> effective_us >> cpu >> memory >> disk >> storage;
    book_.push_back({version, from_micros(effective_us), *Money::parse(cpu), *Money::parse(memory),
                     *Money::parse(disk), Money::parse(storage).value_or(Money())});
  }

  void credit(std::istringstream& in) {
    std::string org, id, amount;
    int64_t priority = 0, expires_s = 0;
    in >> org >> id >> amount >> priority >> expires_s;
    const char* kind = amount.starts_with("-") ? "Adjustment" : "Grant";
    PostCredit credit{OrgId(org), id, kind, *Money::parse(amount), "oracle"};
    if (priority > 0) credit.priority = static_cast<int>(priority);
    if (expires_s > 0) credit.expires_s = expires_s;
    on_account(org, credit);
    let_go(org);
  }

  void put_budget(std::istringstream& in) {
    std::string org, name, limit, period;
    in >> org >> name >> limit >> period;
    std::vector<int> thresholds;
    for (int percent = 0; in >> percent; in.ignore()) thresholds.push_back(percent);
    on_budget(PutBudget{OrgId(org),
                        ProjectId("p"),
                        name,
                        "uid",
                        {*Money::parse(limit), *budget::period_of(period), thresholds},
                        "oracle",
                        budget::find(budgets_["p"], name) == nullptr});
    judge_over_budget();
  }

  void on_budget(const BudgetCommand& command) {
    auto& account = accounts_["org"];
    const auto events = decide(account, budgets_["p"], command, context_);
    CHECK(events.has_value(), "a Budget was refused");
    if (!events->account.empty()) looked_at_.erase("org");
    for (const auto& event : events->account) {
      account::evolve(account, event);
      print(event);
    }
    keep(account);
    keep(*events);
  }

  void keep(const Events& events) {
    auto& budget = budgets_["p"];
    for (const auto& event : events.budget) {
      budget::evolve(budget, event);
      const auto bytes = codec::encode(event);
      CHECK(*codec::decode_budget(bytes.type, bytes.payload) == event, "codec of {}", bytes.type);
      if (const auto* full = std::get_if<budget::BudgetExhausted>(&event))
        std::cout << "full " << full->name << ' ' << full->at_s << '\n';
      if (const auto* reached = std::get_if<budget::ThresholdReached>(&event))
        std::cout << "threshold " << reached->name << ' ' << reached->percent << ' ' << reached->at_s << '\n';
      if (const auto* below = std::get_if<budget::Recovered>(&event))
        std::cout << "recovered " << below->name << ' ' << below->percent << ' ' << below->at_s << '\n';
    }
    CHECK(*codec::decode_budget_state(codec::encode_state(budget)) == budget, "codec of a budget");
  }

  // As the service finds them: whose line ended with a Budget, and is not told of it or not stopping.
  void judge_over_budget() {
    const auto open = open_;
    for (const auto& [name, slot] : open) {
      const auto& start = *charges_[name].current;
      const bool over = start.budget_era < budgets_["p"].era && !start.capped;
      if (over && (!start.paid_until_s || (!start.stop_ordered && !start.times.stopping)))
        apply(JudgeMoney{slot, context_.now});
    }
  }

  void on_account(const std::string& org, const AccountCommand& command) {
    auto& account = accounts_[org];
    const auto events = decide(account, command, context_);
    CHECK(events.has_value(), "a credit was refused");
    if (!events->empty()) looked_at_.erase(org);
    for (const auto& event : *events) {
      account::evolve(account, event);
      print(event);
    }
    keep(account);
  }

  // As the service does: holds that kept something of a Grant after its instant may have let go of it.
  void let_go(const std::string& org) {
    const auto now_s = std::chrono::floor<Seconds>(context_.now).time_since_epoch().count();
    if (account::next_expiry(accounts_[org], now_s)) on_account(org, JudgeBalance{OrgId(org), context_.now});
  }

  template <class Message>
  static Message about(const std::string& uid, int64_t start, const std::string& org) {
    Message m;
    m.mutable_slot()->set_sandbox_uid(uid);
    m.mutable_slot()->set_start(start);
    m.mutable_slot()->set_org(org);
    m.mutable_slot()->set_project("p");
    return m;
  }

  pb::SlotOffered offered(std::istringstream& in, const std::string& uid, int64_t start,
                          const std::string& org) {
    auto m = about<pb::SlotOffered>(uid, start, org);
    int64_t milli = 0, memory = 0, disk = 0;
    std::string cap, recovery;
    in >> milli >> memory >> disk >> cap;
    m.mutable_shape()->set_cpu_milli(milli);
    m.mutable_shape()->set_memory_bytes(memory);
    m.mutable_shape()->set_disk_bytes(disk);
    if (cap != "-") m.set_max_cost_usd(cap);
    m.set_recovery(in >> recovery ? true : false);
    return m;
  }

  template <class Message>
  Message over(std::istringstream& in, const std::string& uid, int64_t start, const std::string& org) {
    auto m = about<Message>(uid, start, org);
    if (int64_t at_us = 0; in >> at_us) m.set_at_us(at_us);
    return m;
  }

  // What is waived, and what has ended; oftener than the service, which judges what is due: nothing comes of
  // it in between.
  void judge_storage() {
    for (const auto& [name, charge] : charges_) {
      if (!charge.stored) continue;
      const auto& s = *charge.stored;
      if (s.waived != Waiver::kUnsaid || s.era < accounts_["org"].era || s.budget_era < budgets_["p"].era)
        apply(JudgeStorage{charge.stored->slot, context_.now});
    }
  }

  pb::MaxCostRaised raised(std::istringstream& in, const std::string& uid, int64_t start,
                           const std::string& org) {
    auto m = about<pb::MaxCostRaised>(uid, start, org);
    std::string cap;
    in >> cap;
    m.set_max_cost_usd(cap);
    m.set_at_us(to_micros(context_.now));
    judged_.erase({uid, start});
    return m;
  }

  // As the service does, which arms the rows of the deadlines anew.
  void declined(const std::string& uid, int64_t start, const std::string& org) {
    run(about<pb::StopDeclined>(uid, start, org));
    const auto& current = charges_[uid].current;
    if (current && current->slot.start == start) apply(JudgeMoney{current->slot, context_.now});
  }

  template <class Message>
  Message timed(std::istringstream& in, const std::string& uid, int64_t start, const std::string& org) {
    auto m = about<Message>(uid, start, org);
    int64_t reserved = 0, started = 0, stopping = 0, released = 0;
    in >> reserved >> started >> stopping >> released;
    m.mutable_times()->set_reserved_at_us(reserved);
    m.mutable_times()->set_started_at_us(started);
    m.mutable_times()->set_stopping_at_us(stopping);
    m.mutable_times()->set_released_at_us(released);
    if constexpr (std::is_same_v<Message, pb::SlotReleased>)
      if (int64_t size = 0; in >> size) m.mutable_restore_point()->set_size_bytes(size);
    return m;
  }

  template <class Message>
  void run(const Message& message) {
    const auto command = codec::command_of(Message::descriptor()->full_name(), message.SerializeAsString());
    CHECK(command && *command, "not a command");
    apply(**command);
  }

  void apply(const Command& command) {
    const auto& slot = slot_of(command);
    auto& charge = charges_[slot.uid.str()];
    auto& account = accounts_[slot.org.str()];
    const auto* close = std::get_if<CloseCharge>(&command);
    const auto* price = in_force(book_, close == nullptr ? context_.now : *close->times.released);
    context_.price = price ? std::optional(*price) : std::nullopt;
    auto& budget = budgets_[slot.project.str()];
    const auto events = decide(charge, account, budget, command, context_);
    if (!events) {
      std::cout << "error " << slot.uid.str() << ' ' << slot.start << ' ' << events.error().reason << '\n';
      return;
    }
    for (const auto& event : events->account) {
      account::evolve(account, event);
      print(event);
    }
    for (const auto& event : events->charge) {
      charge::evolve(charge, event);
      const auto bytes = codec::encode(event);
      CHECK(*codec::decode_charge(bytes.type, bytes.payload) == event, "codec of {}", bytes.type);
      print(event);
    }
    if (!events->account.empty() && !events->charge.empty()) looked_at_.erase(slot.org.str());
    keep(*events);
    CHECK(*codec::decode_charge_state(codec::encode_state(charge)) == charge, "codec of a charge");
    keep(account);
    if (charge.current && charge.current->phase == charge::Phase::kOpen)
      open_[slot.uid.str()] = charge.current->slot;
    else
      open_.erase(slot.uid.str());
    let_go(slot.org.str());
  }

  void keep(const account::State& account) {
    CHECK(*codec::decode_account_state(codec::encode_state(account)) == account, "codec of an account");
  }

  // Everything due up to `until`, each at its own instant.
  void fire_deadlines(Instant until) {
    while (true) {
      auto due = until + Micros(1);
      std::string uid, org, expiring;
      bool budget = false;
      for (const auto& [name, slot] : open_) {
        const auto& start = *charges_[name].current;
        if (!start.cap_s || start.capped || judged_.contains({name, slot.start})) continue;
        if (to_instant(*start.cap_s) < due) due = to_instant(*start.cap_s), uid = name, org.clear();
      }
      const auto next_budget = budget::next_deadline(budgets_["p"], Instant());
      if (next_budget && *next_budget < due) due = *next_budget, budget = true, uid.clear();
      for (const auto& [name, account] : accounts_) {
        const auto next = account::next_deadline(account, context_.stop_reserve, looked_at_[name]);
        if (next && *next < due) due = *next, org = name, budget = false, uid.clear();
      }
      for (const auto& [name, account] : accounts_) {
        const auto expiry_s = account::expires_next(account, expired_to_[name]);
        if (!expiry_s || to_instant(*expiry_s) > due || to_instant(*expiry_s) > until) continue;
        due = to_instant(*expiry_s);
        expiring = name;
      }
      if (!expiring.empty()) {
        context_.now = std::max(due, context_.now);
        expired_to_[expiring] = std::chrono::floor<Seconds>(due).time_since_epoch().count();
        on_account(expiring, JudgeBalance{OrgId(expiring), context_.now});
        continue;
      }
      if (uid.empty() && org.empty() && !budget) return;
      context_.now = std::max(due, context_.now);
      if (!uid.empty()) {
        judged_.insert({uid, open_[uid].start});
        apply(JudgeMoney{open_[uid], context_.now});
        judge_over_budget();  // the same second may have ended a Budget
        judge_storage();
        continue;
      }
      if (budget) {
        on_budget(JudgeBudget{OrgId("org"), ProjectId("p"), context_.now});
        judge_over_budget();
        judge_storage();
        continue;
      }
      looked_at_[org] = due;
      const auto open = open_;
      for (const auto& [name, slot] : open)
        if (slot.org.str() == org) apply(JudgeMoney{slot, context_.now});
      on_account(org, JudgeBalance{OrgId(org), context_.now});
      judge_over_budget();
      judge_storage();
    }
  }

  void print(const charge::Event& event) {
    if (const auto* e = std::get_if<charge::StartFunded>(&event)) {
      std::cout << "funded " << e->slot.uid.str() << ' ' << e->slot.start << ' ' << e->rate.to_decimal()
                << ' ' << e->hold.to_decimal() << '\n';
    } else if (const auto* r = std::get_if<charge::StartRefused>(&event)) {
      std::cout << "refused " << r->slot.uid.str() << ' ' << r->slot.start << ' ' << r->limit << ' '
                << r->hold.to_decimal() << ' ' << r->available.to_decimal() << '\n';
    } else if (const auto* s = std::get_if<charge::StopOrdered>(&event)) {
      const bool cap = s->reason == charge::StopReason::kMaxCostReached;
      const bool full = s->reason == charge::StopReason::kBudgetExceeded;
      std::cout << "stop " << s->slot.uid.str() << ' ' << s->slot.start << ' '
                << (cap    ? "cap"
                    : full ? "budget"
                           : "balance")
                << ' ' << to_money_second(s->at) << '\n';
    } else if (const auto* p = std::get_if<charge::PaidUntil>(&event)) {
      std::cout << "until " << p->slot.uid.str() << ' ' << p->slot.start << ' ' << p->at_s << '\n';
    } else if (const auto* c = std::get_if<charge::ChargeClosed>(&event)) {
      std::cout << "closed " << c->slot.uid.str() << ' ' << c->slot.start << ' ' << c->amount.to_decimal()
                << ' ' << c->sandbox_total.to_decimal();
      for (const auto& line : c->lines)
        std::cout << ' ' << to_string(line.kind) << ',' << line.from_s << ',' << line.to_s << ','
                  << line.amount.to_decimal() << ',' << (line.waived ? to_string(line.cause) : "paid");
      std::cout << '\n';
    } else if (const auto* m = std::get_if<charge::StorageMetered>(&event); m && m->to_s > m->from_s) {
      std::cout << "stored " << m->slot.uid.str() << ' ' << m->slot.start << ' ' << m->from_s << ' '
                << m->to_s << ' ' << m->amount.to_decimal() << ' '
                << (m->waived == Waiver::kUnsaid ? "paid" : to_string(m->waived)) << '\n';
    }
  }

  void print(const account::Event& event) {
    if (const auto* e = std::get_if<account::BalanceExhausted>(&event))
      std::cout << "exhausted " << e->org.str() << ' ' << e->at_s << '\n';
    if (const auto* x = std::get_if<account::CreditExpired>(&event); x && x->amount > Money())
      std::cout << "expired " << x->id << ' ' << x->amount.to_decimal() << ' ' << x->at_s << '\n';
  }

  Context context_;
  std::vector<PriceVersion> book_;
  std::map<std::string, charge::State> charges_;
  std::map<std::string, account::State> accounts_;
  std::map<std::string, budget::State> budgets_;
  std::map<std::string, SlotRef> open_;
  std::map<std::string, Instant> looked_at_;
  std::map<std::string, MoneySecond> expired_to_;  // whose Grants were looked at, up to where
  std::set<std::pair<std::string, int64_t>> judged_;
};

}  // namespace
}  // namespace nodus::metering

int main() {
  nodus::metering::Replay replay;
  for (std::string text; std::getline(std::cin, text);) replay.line(text);
  replay.finish();
}
