#include "services/metering/adapters/operations.hpp"

#include "services/metering/app/names.hpp"

namespace nodus::metering {

namespace {
constexpr size_t kMaxText = 500;
constexpr int kBrakeChanges = 50;
}  // namespace

Result<PostCredit> credit_of(const CreditRequest& asked) {
  Error error{Code::kInvalid, "Invalid", "The credit has faults; nothing was posted."};
  const auto fault = [&](std::string field, std::string message) {
    error.causes.push_back({std::move(field), "FieldValueInvalid", std::move(message)});
  };
  const auto amount = Money::parse(asked.amount);
  if (!amount) fault("amount", amount.error().message);
  if (!is_label(asked.org)) fault("org", "takes the name of an organization");
  PostCredit credit{OrgId(asked.org), asked.id, asked.kind, amount.value_or(Money()), asked.author};
  credit.priority = asked.priority;
  if (!asked.expires.empty()) {
    const auto at = parse_rfc3339(asked.expires);
    if (!at)
      fault("expires", at.error().message);
    else if (*at != std::chrono::floor<Seconds>(*at))
      fault("expires", "must be a whole second");
    else
      credit.expires_s = to_money_second(*at);
  }
  if (!error.causes.empty()) return std::unexpected(std::move(error));
  return credit;
}

Result<bool> post_credit(eventlog::EventLog& log, Works& works, PostCredit credit) {
  const std::vector all = {works.on_account(std::move(credit))};
  const auto answer = log.run(all).front();
  if (!answer) return std::unexpected(answer.error());
  return *answer == "done";
}

Result<void> change_brake(pg::Pool& pool, const BrakeChange& change) {
  Error error{Code::kInvalid, "Invalid", "The change of the brake has faults; nothing was changed."};
  for (const auto& [field, text] : {std::pair{"reason", &change.reason}, {"author", &change.author}})
    if (text->empty() || text->size() > kMaxText || text->find('\0') != std::string::npos)
      error.causes.push_back({field, "FieldValueInvalid", "takes 1 to 500 characters"});
  if (!error.causes.empty()) return std::unexpected(std::move(error));
  return pool.with_tx([&](pg::Tx& tx) -> Result<void> {
    tx.exec_params0("INSERT INTO brake_changes (engaged, reason, author, at_us) VALUES ($1, $2, $3, $4)",
                    change.engaged, change.reason, change.author, to_micros(change.at));
    return {};
  });
}

Result<std::vector<BrakeChange>> brake_changes(pg::Pool& pool) {
  return pool.with_tx([](pg::Tx& tx) -> Result<std::vector<BrakeChange>> {
    std::vector<BrakeChange> changes;
    for (const auto& row :
         tx.exec_params("SELECT engaged, reason, author, at_us FROM brake_changes ORDER BY id DESC LIMIT $1",
                        kBrakeChanges))
      changes.push_back(
          {row[0].as<bool>(), row[1].c_str(), row[2].c_str(), from_micros(row[3].as<int64_t>())});
    return changes;
  });
}

}  // namespace nodus::metering
