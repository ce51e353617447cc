// The platform's brake: an operator suspends the stops for money when metering is found wrong.
#include <fmt/core.h>

#include "services/metering/money_commands.hpp"
#include "services/metering/operator.hpp"
#include "services/metering/service.hpp"

namespace nodus::metering {

namespace {
constexpr size_t kMaxText = 500;
}

int change_brake(const Config& config, bool on, const std::string& reason, const std::string& author) {
  if (reason.empty() || reason.size() > kMaxText || author.empty() || author.size() > kMaxText)
    return complain({Code::kInvalid, "", "--reason and --author take 1 to 500 characters."}, 1);
  Operator with(config);
  const auto kept = with.pool.with_tx([&](pqxx::work& tx) -> Result<void> {
    tx.exec_params0("INSERT INTO brake_changes (engaged, reason, author, at_us) VALUES ($1, $2, $3, $4)", on,
                    reason, author, to_micros(with.clock.now()));
    return {};
  });
  if (!kept) return complain(kept.error(), 1);
  fmt::print("The brake is {}: {}\n", on ? "on" : "off",
             on ? "no Sandbox is stopped for money until it is off again."
                : "what ended meanwhile is stopped now; the seconds since are not charged.");
  return 0;
}

int show_brake(const Config& config) {
  Operator with(config);
  const auto shown = with.pool.with_tx([&](pqxx::work& tx) -> Result<void> {
    fmt::print("{:<21} {:<6} {:<20} {}\n", "AT", "BRAKE", "AUTHOR", "REASON");
    for (const auto& row :
         tx.exec("SELECT at_us, engaged, author, reason FROM brake_changes ORDER BY id DESC LIMIT 50"))
      fmt::print("{:<21} {:<6} {:<20} {}\n", to_rfc3339(from_micros(row[0].as<int64_t>())),
                 row[1].as<bool>() ? "on" : "off", row[2].c_str(), row[3].c_str());
    return {};
  });
  return shown ? 0 : complain(shown.error(), 1);
}

}  // namespace nodus::metering
