#include "services/metering/domain/credits.hpp"

#include <algorithm>

#include "services/metering/domain/lots.hpp"

namespace nodus::metering {

namespace {

constexpr size_t kMaxId = 128;
constexpr size_t kMaxAuthor = 128;
constexpr MoneySecond kYear10000 = 253'402'300'800;

// Printable ASCII: it is written in rows, reports and logs.
bool is_text(const std::string& text, size_t longest) {
  return !text.empty() && text.size() <= longest &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

Result<void> judge(const PostCredit& c, Instant now) {
  Error error{Code::kInvalid, "Invalid", "The credit has faults; nothing was posted."};
  const auto fault = [&](std::string field, std::string message) {
    error.causes.push_back({std::move(field), "FieldValueInvalid", std::move(message)});
  };
  const bool adds = c.kind == "Purchase" || c.kind == "Grant";
  if (!adds && c.kind != "Refund" && c.kind != "Adjustment")
    fault("kind", "must be Purchase, Grant, Refund or Adjustment");
  if (c.amount == Money() || (c.amount < Money() && c.kind != "Adjustment"))
    fault("amount", c.kind == "Adjustment" ? "must not be zero" : "must be more than zero");
  if (!is_text(c.id, kMaxId)) fault("id", "must be 1 to 128 printable characters without blanks");
  if (!is_text(c.author, kMaxAuthor)) fault("author", "must be 1 to 128 printable characters without blanks");
  if (c.expires_s && c.kind != "Grant") fault("expires", "only a Grant expires");
  if (c.expires_s && (*c.expires_s <= to_money_second(now) || *c.expires_s >= kYear10000))
    fault("expires", "must be later than now, " + to_rfc3339(now) + ", and before the year 10000");
  if (c.priority < 1 || c.priority > 9) fault("priority", "must be 1 to 9; the smallest is used first");
  if (!error.causes.empty()) return std::unexpected(std::move(error));
  return {};
}

// Grants that are used up by now do not count.
Result<void> judge_room(account::State state, const account::CreditPosted& credit) {
  if (!credit.expires_s) return {};
  account::use_up(state, *credit.used);
  const auto expiring =
      std::ranges::count_if(state.lots, [](const account::Lot& l) { return !!l.expires_s; });
  if (std::cmp_less(expiring, account::kMaxExpiring)) return {};
  return fail(Code::kConflict, "TooManyGrants",
              "The organization has " + std::to_string(account::kMaxExpiring) +
                  " Grants that expire; give one that does not, or wait until one is used up.");
}

Money magnitude(Money amount) {
  return std::max(amount, -amount);
}

}  // namespace

Result<std::vector<account::Event>> post_credit(const account::State& settled, const PostCredit& command,
                                                Instant now) {
  if (command.posted) {
    if (*command.posted == PostedCredit{command.kind, command.amount, command.expires_s, command.priority})
      return std::vector<account::Event>{};
    return fail(Code::kConflict, "CreditIdReused",
                "Credit " + command.id + " was posted as a " + command.posted->kind + " of $" +
                    command.posted->amount.to_decimal() +
                    " with other values; use a new id for a new credit.");
  }
  if (auto fine = judge(command, now); !fine) return std::unexpected(std::move(fine.error()));
  const MoneySecond now_s = to_money_second(now);
  account::CreditPosted credit{command.org,    command.id, command.kind,      command.amount,
                               command.author, now,        command.expires_s, command.priority};
  credit.used = account::used_at(settled, now_s);
  if (auto room = judge_room(settled, credit); !room) return std::unexpected(std::move(room.error()));
  const bool takes = command.kind == "Refund" || command.amount < Money();
  if (takes) {
    const Money wanted = magnitude(command.amount);
    const Money left = std::max(account::available(settled, now_s), Money());
    if (wanted > left && !command.paid_back)
      return fail(Code::kConflict, "CreditSpent",
                  "$" + wanted.to_decimal() + " cannot be taken away: only $" + left.to_decimal() +
                      " of the balance is neither spent nor held for what runs.");
    const Money taken = std::min(wanted, left);
    credit.amount = -taken;
    credit.uncovered = wanted - taken;
  }
  std::vector<account::Event> events{credit};
  if (command.kind == "Purchase" && !settled.purchased)
    events.push_back(account::FirstPurchase{command.org, command.id, now});
  if (!takes) events.push_back(account::FundsChanged{command.org, now});
  return events;
}

}  // namespace nodus::metering
