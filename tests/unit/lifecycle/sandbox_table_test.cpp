// Runs every cell of the table state × message in services/lifecycle/README.md.
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>

#include "tests/unit/lifecycle/sandbox_fixture.hpp"

namespace nodus::lifecycle::test {
namespace {

struct Table {
  std::vector<std::string> states;             // the first cell is the head of the messages
  std::vector<std::vector<std::string>> rows;  // message, then a cell for each state
};

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) {
    const auto first = cell.find_first_not_of(' ');
    out.push_back(first == std::string::npos ? ""
                                             : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
  }
  return out;
}

Table read_table() {
  std::ifstream readme(NODUS_SOURCE_DIR "/services/lifecycle/README.md");
  Table table;
  for (std::string line; std::getline(readme, line);) {
    if (line.starts_with("| message |")) {
      table.states = cells(line);
    } else if (!table.states.empty() && !line.starts_with("|---")) {
      if (!line.starts_with("|")) break;
      table.rows.push_back(cells(line));
    }
  }
  return table;
}

const std::map<std::string, std::function<Given()>>& states() {
  static const std::map<std::string, std::function<Given()>> kStates = {
      {"New", none},
      {"Pending", pending},
      {"Deferred", deferred},
      {"Starting", starting},
      {"Running", running},
      {"Stopping", [] { return stopping(); }},
      {"Idle stop", [] { return stopping(StopReason::kIdle); }},
      {"Stopped", stopped},
      {"Refused", refused},
      {"Failed", failed},
      {"Recovering", recovering},
      {"Terminating", terminating},
      {"Deleted", deleted},
  };
  return kStates;
}

struct Message {
  std::function<SandboxCommand(const Sandbox&)> make;
  int64_t now_s = 100;
};

int64_t start_of(const Sandbox& s) {
  return std::max<int64_t>(s.start, 1);
}

ReleaseRecorded ended(const Sandbox& s, std::string failure) {
  auto r = release(s.stop_reason, std::move(failure));
  r.start = start_of(s);
  return r;
}

Message always(SandboxCommand command, int64_t now_s = 100) {
  return {[command](const Sandbox&) { return command; }, now_s};
}

const std::map<std::string, Message>& messages() {
  static const std::map<std::string, Message> kMessages = {
      {"create", always(CreateSandbox{hello(), true})},
      {"create again, same spec", always(TriggerStart{Trigger::kCreate})},
      {"start", always(TriggerStart{Trigger::kStart})},
      {"command", always(TriggerStart{Trigger::kCommand})},
      {"file request", always(TriggerStart{Trigger::kFile})},
      {"command's number", always(NumberProcess{})},
      {"stop", always(RequestStop{StopReason::kUser, {}})},
      {"money ended",
       {[](const Sandbox& s) { return RequestStop{StopReason::kInsufficientCredits, start_of(s)}; }}},
      {"money ended, earlier start", always(RequestStop{StopReason::kInsufficientCredits, 0})},
      {"delete", always(DeleteSandbox{})},
      {"cap raised", always(RaiseMaxCost{*Money::parse("2.00")})},
      {"labels changed", always(ChangeMetadata{.labels = {{"tier", "one"}}, .annotations = {}})},
      {"cap lowered", always(RaiseMaxCost{*Money::parse("0.50")})},
      {"idle, due", always(CheckIdle{}, 400)},
      {"idle, early", always(CheckIdle{}, 304)},
      {"retry, due", always(CheckRetry{}, 400)},
      {"retry, early", always(CheckRetry{}, 20)},
      {"warning, due", always(CheckWarning{}, 7000)},
      {"warning, early", always(CheckWarning{}, 6479)},
      {"maxLifetime, due", always(CheckLifetime{}, 7200)},
      {"maxLifetime, early", always(CheckLifetime{}, 7199)},
      {"funded", {[](const Sandbox& s) { return RecordFunding{{start_of(s), kRate, {}, at_s(100)}}; }}},
      {"refused",
       {[](const Sandbox& s) { return RecordFunding{{start_of(s), std::nullopt, broke(), at_s(100)}}; }}},
      {"slot reserved", {[](const Sandbox& s) {
         return RecordSlot{{start_of(s), s.epoch + 1, "machine-2", "127.0.0.1:7411", at_s(100)}};
       }}},
      {"slot reserved, known epoch", {[](const Sandbox& s) {
         return RecordSlot{{start_of(s), s.epoch, "machine-9", "127.0.0.1:9", at_s(100)}};
       }}},
      {"started", {[](const Sandbox& s) { return RecordRunning{{start_of(s), "runsc", at_s(100)}}; }}},
      {"stop declined",
       {[](const Sandbox& s) { return RecordStopDeclined{{start_of(s), at_s(99), "", {}}}; }}},
      {"activity, its machine's", {[](const Sandbox& s) {
         return RecordActivity{s.machine, {s.epoch, true, "process 42 (node)", at_s(99), {}}};
       }}},
      {"activity, another's", {[](const Sandbox& s) {
         return RecordActivity{"machine-9", {s.epoch, true, "process 42 (node)", at_s(99), {}}};
       }}},
      {"offer lapsed, stopped",
       {[](const Sandbox& s) { return RecordLapse{start_of(s), "Stopped", StopReason::kUser}; }}},
      {"offer lapsed, refused",
       {[](const Sandbox& s) { return RecordLapse{start_of(s), "Refused", StopReason::kNone}; }}},
      {"offer lapsed, no machine",
       {[](const Sandbox& s) { return RecordLapse{start_of(s), "NoCapacity", StopReason::kNone}; }}},
      {"released", {[](const Sandbox& s) { return RecordRelease{ended(s, "")}; }}},
      {"released, failed", {[](const Sandbox& s) { return RecordRelease{ended(s, "Crashed")}; }}},
      {"released, machine lost",
       {[](const Sandbox& s) { return RecordRelease{ended(s, std::string(kNodeLost))}; }}},
      {"released, earlier start", {[](const Sandbox& s) {
         auto r = ended(s, "");
         r.start = 0;
         return RecordRelease{r};
       }}},
      {"charge posted", {[](const Sandbox& s) { return RecordCharge{{start_of(s), kRate * 50}}; }}},
  };
  return kMessages;
}

// What a reader of the table is told: the phase that follows, or what was noted, or the reason of the
// refusal.
std::string describe(const Sandbox& before, const Sandbox& after,
                     const Result<std::vector<SandboxEvent>>& events) {
  if (!events) return events.error().reason;
  if (events->empty()) return "-";
  if (after.phase != before.phase)
    return after.phase == Phase::kDeleted ? "gone" : std::string(to_string(after.phase));
  if (after.start != before.start) return "asks anew";
  if (after.wake_pending != before.wake_pending) return after.wake_pending ? "wakes after" : "stays down";
  if (after.stop_reason != before.stop_reason && before.phase == Phase::kStopping) return "overtakes";
  if (std::holds_alternative<StopWished>(events->front())) return "spec.state";
  return "noted";
}

std::string outcome(const std::string& state, const std::string& message) {
  Given given = states().at(state)();
  const auto row = messages().find(message);
  if (row == messages().end()) return "a row without a test";
  const Sandbox before = given.state;
  const auto command = row->second.make(before);
  const auto events = given.when(command, row->second.now_s);
  if (events)
    for (const auto& event : *events) given.event(event);
  const std::string said = describe(before, given.state, events);
  // A repeat of an accepted message yields nothing: neither an event nor a second start.
  const bool counts = std::holds_alternative<NumberProcess>(command);
  if (events && !events->empty() && !counts) {
    const auto again = given.when(command, row->second.now_s);
    EXPECT_TRUE(!again || again->empty()) << state << " × " << message << ", twice";
  }
  return said;
}

TEST(SandboxTable, EveryCellOfTheReadme) {
  const Table table = read_table();
  ASSERT_EQ(table.states.size(), states().size() + 1);
  EXPECT_EQ(table.rows.size(), messages().size());
  std::string actual;
  bool same = true;
  for (const auto& row : table.rows) {
    ASSERT_EQ(row.size(), table.states.size()) << "a ragged row: " << row[0];
    actual += "| " + row[0];
    for (size_t i = 1; i < row.size(); ++i) {
      const std::string said = outcome(table.states[i], row[0]);
      EXPECT_EQ(said, row[i]) << row[0] << " in state " << table.states[i];
      same = same && said == row[i];
      actual += " | " + said;
    }
    actual += " |\n";
  }
  if (!same) std::cout << "The table as the code is:\n" << actual;
}

}  // namespace
}  // namespace nodus::lifecycle::test
