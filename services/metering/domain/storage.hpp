// Inside of a decision: the storage of a Sandbox's newest restore point, while it holds no slot. A line of
// the account and of the project's spend as that of a start, but for three things: it has no hold and no cap,
// nothing is stopped or deleted when its money ends, and it goes on being paid when money comes.
#pragma once

#include "services/metering/domain/settle.hpp"

namespace nodus::metering {

// A start was closed at at_s, up to which all is settled: what it saved, or what was saved before it, is
// stored from there on. Without a price book in force nothing is.
void open_storage(Draft& draft, const CloseCharge& command, const std::string& sandbox_name, MoneySecond at_s,
                  const Context& context);

// A slot is reserved, or the Sandbox deleted, at at_s, up to which all is settled: what was stored is
// metered.
void end_storage(Draft& draft, MoneySecond at_s, const Context& context);

// The two at a deadline, or when money may have come.
void drop_storage(Draft& draft, const SlotRef& slot, Instant at, const Context& context);
void judge_storage(Draft& draft, const JudgeStorage& command, const Context& context);

}  // namespace nodus::metering
