// Payments, as Stripe tells of them: what a signed request says, and nothing of what to do about it.
// Source: Stripe's documentation, "Webhooks" and "Event types".
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"
#include "libs/base/ids.hpp"
#include "libs/money/money.hpp"

namespace nodus::metering::stripe {

// Header `Stripe-Signature: t=<seconds>,v1=<hex>[,v1=…]`: the HMAC-SHA256 of "<t>.<body>" under the secret of
// the endpoint. Several v1 are there while a secret is rolled; one that fits is enough. Five minutes either
// way. Errors: BadRequest/SignatureInvalid.
Result<void> verify(std::string_view header, std::string_view body, std::string_view secret, Instant now);

struct Paid {           // checkout.session.completed, payment_intent.succeeded
  std::string payment;  // of the payment intent: the same in both events, so it is posted once
  OrgId org;            // metadata.organization
  Money amount;
};
struct PaidBack {  // charge.refunded
  std::string payment;
  std::string charge;
  Money total;  // of all refunds of this charge so far
};
struct Ignored {  // another type of event, or a session that is not paid yet
  std::string type;
};
using Notice = std::variant<Paid, PaidBack, Ignored>;

// Errors: BadRequest/BadRequest (not JSON), Invalid/Invalid with a cause for each fault: another currency
// than usd, an amount that is no whole number of cents, no organization.
Result<Notice> read(std::string_view body);

}  // namespace nodus::metering::stripe
