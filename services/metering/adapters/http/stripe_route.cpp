#include "libs/base/overloaded.hpp"
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"
#include "services/metering/adapters/http/money_routes.hpp"
#include "services/metering/adapters/operations.hpp"
#include "services/metering/adapters/stripe.hpp"

namespace nodus::metering {

namespace {

constexpr const char* kAuthor = "stripe";

std::string credit_name(const std::string& payment) {
  return "stripe/" + payment;
}

// Whose payment it was. The purchase is posted before it can be paid back; if its event is late, the refund's
// comes again.
Result<OrgId> payer_of(pg::Pool& pool, const std::string& payment) {
  return pool.with_tx([&](pg::Tx& tx) -> Result<OrgId> {
    const auto rows = tx.exec_params("SELECT org FROM credits WHERE id = $1 AND kind = 'Purchase' LIMIT 1",
                                     credit_name(payment));
    if (rows.empty())
      return fail(Code::kConflict, "PaymentUnknown",
                  "Payment " + payment + " was not posted, so nothing of it can be paid back yet.");
    return OrgId(rows[0][0].c_str());
  });
}

Result<bool> act(const MoneyDeps& deps, const stripe::Notice& notice) {
  return std::visit(Overloaded{[](const stripe::Ignored&) -> Result<bool> { return false; },
                               [&](const stripe::Paid& paid) -> Result<bool> {
                                 return post_credit(
                                     deps.log, deps.works,
                                     {paid.org, credit_name(paid.payment), "Purchase", paid.amount, kAuthor});
                               },
                               [&](const stripe::PaidBack& back) -> Result<bool> {
                                 auto org = payer_of(deps.pool, back.payment);
                                 if (!org) return std::unexpected(std::move(org.error()));
                                 const std::string prefix = credit_name(back.charge) + "/refund/";
                                 PostCredit credit{std::move(*org), prefix + back.total.to_decimal(),
                                                   "Refund", back.total, kAuthor};
                                 credit.paid_back = true;
                                 credit.total_of = prefix;
                                 return post_credit(deps.log, deps.works, std::move(credit));
                               }},
                    notice);
}

}  // namespace

http::Response answer_stripe(const MoneyDeps& deps, const http::Request& request) {
  static auto refused = metrics::counter("nodus_metering_webhooks_refused_total",
                                         "Payment events with a wrong signature, or with faults");
  const auto answer = [&]() -> Result<bool> {
    if (deps.stripe_secret.empty())
      return fail(Code::kUnavailable, "WebhookNotConfigured", "No signing secret is configured.");
    auto genuine = stripe::verify(request.headers.get("Stripe-Signature").value_or(""), request.body,
                                  deps.stripe_secret, deps.clock.now());
    if (!genuine) return std::unexpected(std::move(genuine.error()));
    const auto notice = stripe::read(request.body);
    if (!notice) return std::unexpected(notice.error());
    return act(deps, *notice);
  }();
  if (!answer) {
    refused.add();
    log::warn("metering.webhook_refused", {{"reason", answer.error().reason}});
    return http::status(answer.error());
  }
  return http::json(200,
                    *answer ? R"({"received":true,"posted":true})" : R"({"received":true,"posted":false})");
}

}  // namespace nodus::metering
