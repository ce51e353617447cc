// Sees to it that every Process ends, and that outputs go when they should. One thread.
//
// A Process ends by its machine's report. Besides that:
//  - Its start is over and the machine said nothing within `grace`: NodeLost if the machine or the container
//    was lost, else ParentStopped.
//  - `hand_over` has passed since it was admitted, and nobody knows that the machine has it: the machine is
//    told to refuse it unless it has it. What it refuses never starts later, and it reports StartFailed.
//    So it is again when the timeout has passed for sure: a machine may have lost what it knew.
#pragma once

#include <functional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>

#include "libs/base/clock.hpp"
#include "libs/eventlog/batcher.hpp"
#include "libs/pg/connection.hpp"
#include "services/lifecycle/app/output_store.hpp"
#include "services/lifecycle/app/ports.hpp"

namespace nodus::lifecycle {

struct KeeperOptions {
  Millis poll{500};
  Micros grace{std::chrono::seconds(30)};
  Micros hand_over{std::chrono::seconds(10)};
  Micros ask{std::chrono::seconds(2)};  // between two rounds of questions to machines
  Micros sweep{std::chrono::hours(1)};  // between two looks for outputs that are too old
};

// Asks the machine of the Sandbox's slot to refuse the Process unless it has it. Ok: it has answered, and it
// has it or will report its end.
using RefuseUnlessKnown = std::function<Result<void>(const Sandbox& sandbox, const ProcessAdmitted& process)>;

class ProcessKeeper {
 public:
  ProcessKeeper(eventlog::Batcher& batcher, pg::Pool& pool, Catalog& catalog, OutputStore& outputs,
                const Clock& clock, RefuseUnlessKnown refuse, KeeperOptions options);
  ~ProcessKeeper();  // joins the thread

  // One round, for tests without the thread.
  Result<void> round();

 private:
  void run(const std::stop_token& stop);
  Result<void> end_over();
  Result<void> ask_unheard();
  Result<void> remove_outputs();

  eventlog::Batcher& batcher_;
  pg::Pool& pool_;
  Catalog& catalog_;
  OutputStore& outputs_;
  const Clock& clock_;
  const RefuseUnlessKnown refuse_;
  const KeeperOptions options_;
  Micros swept_{0};  // boot time of the last look for old outputs
  Micros asked_{0};
  std::string after_;  // the last Process asked about; empty: from the beginning
  std::jthread thread_;
};

}  // namespace nodus::lifecycle
