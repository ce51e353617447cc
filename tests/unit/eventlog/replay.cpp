// Property: whatever Works run, replaying a stream's events gives the state of its head row, and both agree
// with a model that knows nothing of logs.
#include <random>
#include <variant>

#include "libs/eventlog/aggregate.hpp"
#include "tests/unit/eventlog/contract.hpp"

namespace nodus::eventlog::contract {
namespace {

// An account that must not go below zero.
struct Account {
  struct Deposited {
    int64_t amount;
  };
  struct Withdrawn {
    int64_t amount;
  };
  struct State {
    int64_t balance = 0;
    int64_t moves = 0;
    bool operator==(const State&) const = default;
  };
  using Event = std::variant<Deposited, Withdrawn>;
  using Command = int64_t;  // what to add, or to take if negative
  using Context = int;
  static constexpr int kStateVersion = 1;

  static Result<std::vector<Event>> decide(const State& state, const Command& change, const Context&) {
    if (change == 0) return std::vector<Event>{};
    if (state.balance + change < 0) return fail(Code::kConflict, "TooLittle", "");
    if (change > 0) return std::vector<Event>{Deposited{change}};
    return std::vector<Event>{Withdrawn{-change}};
  }
  static void evolve(State& state, const Event& event) {
    ++state.moves;
    if (const auto* in = std::get_if<Deposited>(&event)) state.balance += in->amount;
    if (const auto* out = std::get_if<Withdrawn>(&event)) state.balance -= out->amount;
  }
};

struct Codec {
  static Event encode(const Account::Event& event) {
    if (const auto* in = std::get_if<Account::Deposited>(&event))
      return {"test.Deposited", std::to_string(in->amount)};
    return {"test.Withdrawn", std::to_string(std::get<Account::Withdrawn>(event).amount)};
  }
  static Result<Account::Event> decode(const std::string& type, const std::string& payload) {
    if (type == "test.Deposited") return Account::Deposited{std::stoll(payload)};
    if (type == "test.Withdrawn") return Account::Withdrawn{std::stoll(payload)};
    return fail(Code::kInternal, "UnknownEvent", type);
  }
  static std::string encode_state(const Account::State& state) {
    return std::to_string(state.balance) + " " + std::to_string(state.moves);
  }
  static Result<Account::State> decode_state(const std::string& text) {
    auto space = text.find(' ');
    return Account::State{std::stoll(text), std::stoll(text.substr(space))};
  }
};

std::string name(unsigned n) {
  return "account/" + std::to_string(n);
}

// Moves `amount` from one account to another, or neither.
Work transfer(unsigned from, unsigned to, int64_t amount) {
  return {"", "", {name(from), name(to)}, [=](Unit& unit) -> Result<std::string> {
            auto in = apply<Account, Codec>(unit, name(to), amount, 0);
            if (!in) return std::unexpected(in.error());
            auto out = apply<Account, Codec>(unit, name(from), -amount, 0);
            if (!out) return std::unexpected(out.error());
            return "";
          }};
}

Work deposit(unsigned to, int64_t amount) {
  return {"", "", {name(to)}, [=](Unit& unit) -> Result<std::string> {
            auto step = apply<Account, Codec>(unit, name(to), amount, 0);
            if (!step) return std::unexpected(step.error());
            return "";
          }};
}

}  // namespace

TEST_P(EventLogContract, AReplayGivesTheHead) {
  constexpr unsigned kAccounts = 8, kSeed = 20'261'129;
  std::mt19937 random(kSeed);
  std::vector<int64_t> model(kAccounts, 0);
  for (int round = 0; round < 25; ++round) {
    std::vector<Work> works;
    std::vector<bool> accepted;
    for (unsigned i = 0, count = 1 + random() % 20; i < count; ++i) {
      unsigned from = random() % kAccounts, to = random() % kAccounts;
      int64_t amount = random() % 50;
      if (random() % 3 == 0 || from == to) {
        works.push_back(deposit(to, amount));
        accepted.push_back(true);
        model[to] += amount;
      } else {
        works.push_back(transfer(from, to, amount));
        accepted.push_back(model[from] >= amount);
        if (accepted.back()) {
          model[from] -= amount;
          model[to] += amount;
        }
      }
    }
    auto answers = log().run(works);
    for (size_t i = 0; i < works.size(); ++i)
      ASSERT_EQ(answers[i].has_value(), accepted[i]) << "seed " << kSeed;
  }
  for (unsigned n = 0; n < kAccounts; ++n) {
    Head head = log().head(name(n)).value();
    auto rebuilt = rebuild<Account, Codec>(log(), name(n)).value();
    EXPECT_EQ(rebuilt.balance, model[n]);
    EXPECT_EQ(rebuilt.moves, head.version);
    if (head.version > 0) EXPECT_EQ(rebuilt, Codec::decode_state(head.state).value());
  }
  expect_sound(log());
}

TEST_P(EventLogContract, AStateOfANewerReleaseIsNotTouched) {
  Work newer{"", "", {name(1)}, [](Unit& unit) -> Result<std::string> {
               unit.append(name(1), {{"test.Unknown", ""}}, "?", Account::kStateVersion + 1);
               return "";
             }};
  ASSERT_TRUE(log().run(std::vector{newer})[0].has_value());
  auto answer = log().run(std::vector{deposit(1, 5)})[0];
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
  EXPECT_EQ(answer.error().reason, "StateTooNew");
}

}  // namespace nodus::eventlog::contract
