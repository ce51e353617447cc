#include <fmt/core.h>

#include "services/metering/money_commands.hpp"
#include "services/metering/operator.hpp"
#include "services/metering/service.hpp"

namespace nodus::metering {

int set_brake(const Config& config, bool on, const std::string& reason, const std::string& author) {
  Operator with(config);
  if (auto kept = change_brake(with.pool, {on, reason, author, with.clock.now()}); !kept) {
    for (auto& cause : kept.error().causes) cause.field = "--" + cause.field;
    return complain(kept.error(), 1);
  }
  fmt::print("The brake is {}: {}\n", on ? "on" : "off",
             on ? "no Sandbox is stopped for money until it is off again."
                : "what ended meanwhile is stopped now; the seconds since are not charged.");
  return 0;
}

int show_brake(const Config& config) {
  Operator with(config);
  const auto changes = brake_changes(with.pool);
  if (!changes) return complain(changes.error(), 1);
  fmt::print("{:<21} {:<6} {:<20} {}\n", "AT", "BRAKE", "AUTHOR", "REASON");
  for (const auto& change : *changes)
    fmt::print("{:<21} {:<6} {:<20} {}\n", to_rfc3339(change.at), change.engaged ? "on" : "off",
               change.author, change.reason);
  return 0;
}

}  // namespace nodus::metering
