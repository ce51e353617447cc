#include "services/metering/adapters/stripe.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <vector>

#include "libs/base/random.hpp"
#include "libs/http/json_body.hpp"
#include "services/metering/app/names.hpp"

namespace nodus::metering::stripe {

namespace json = boost::json;

namespace {

constexpr Micros kTolerance = Seconds(300);
constexpr size_t kMaxHeader = 4096;
constexpr int64_t kMaxCents = 99'999'999'999;  // far above what Stripe takes in one payment
constexpr int kPicoPerCentDigits = 10;

std::unexpected<Error> refused(std::string message) {
  return fail(Code::kBadRequest, "SignatureInvalid", std::move(message));
}

struct Signature {
  std::string_view at;
  std::vector<std::string_view> v1;
};

Result<Signature> parse(std::string_view header) {
  if (header.empty()) return refused("The header Stripe-Signature is missing.");
  if (header.size() > kMaxHeader) return refused("The header Stripe-Signature is too long.");
  Signature signature;
  while (!header.empty()) {
    const size_t comma = header.find(',');
    std::string_view part = header.substr(0, comma);
    header.remove_prefix(comma == std::string_view::npos ? header.size() : comma + 1);
    while (part.starts_with(' ')) part.remove_prefix(1);
    if (part.starts_with("t=")) {
      if (!signature.at.empty()) return refused("The header Stripe-Signature holds two times.");
      signature.at = part.substr(2);
    } else if (part.starts_with("v1=")) {
      signature.v1.push_back(part.substr(3));
    }
  }
  if (signature.at.empty() || signature.v1.empty())
    return refused("The header Stripe-Signature must be t=<seconds>,v1=<signature>.");
  return signature;
}

Money of_cents(int64_t cents) {
  int128 pico = cents;
  for (int i = 0; i < kPicoPerCentDigits; ++i) pico *= 10;
  return Money::from_pico(pico);
}

// Reads members of the event's object and remembers every fault.
class Reader {
 public:
  explicit Reader(const json::object& object) : object_(object) {}

  std::string text(const char* name) const {
    const auto* value = object_.if_contains(name);
    return value && value->is_string() ? std::string(value->get_string()) : "";
  }
  // An id, or the object that it was expanded to.
  std::string id(const char* name) const {
    const auto* value = object_.if_contains(name);
    if (value && value->is_object()) return Reader(value->get_object()).text("id");
    return text(name);
  }
  std::string payment(const std::string& id) {
    const bool fine = !id.empty() && id.size() <= 64 && std::ranges::all_of(id, [](char c) {
      return c == '_' || c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
             (c >= 'A' && c <= 'Z');
    });
    if (!fine) fault("data.object.payment_intent", "must be the id of a payment");
    return id;
  }
  Money cents(const char* name, const char* other = nullptr) {
    const auto* value = object_.if_contains(name);
    if (value == nullptr && other != nullptr) value = object_.if_contains(other);
    if (value == nullptr || !value->is_int64() || value->get_int64() < 1 || value->get_int64() > kMaxCents) {
      fault(std::string("data.object.") + name, "must be a whole number of cents above 0");
      return {};
    }
    return of_cents(value->get_int64());
  }
  void usd() {
    if (text("currency") != "usd") fault("data.object.currency", "must be usd: credits are US dollars");
  }
  OrgId organization() {
    const auto* metadata = object_.if_contains("metadata");
    std::string name;
    if (metadata && metadata->is_object()) name = Reader(metadata->get_object()).text("organization");
    if (!is_label(name))
      fault("data.object.metadata.organization", "must name the organization that the payment is for");
    return OrgId(std::move(name));
  }
  void fault(std::string field, std::string message) {
    error_.causes.push_back({std::move(field), "FieldValueInvalid", std::move(message)});
  }
  Result<Notice> finish(Notice notice) const {
    if (!error_.causes.empty()) return std::unexpected(error_);
    return notice;
  }

 private:
  const json::object& object_;
  Error error_{Code::kInvalid, "Invalid", "The payment event has faults; nothing was posted."};
};

const json::object* member(const json::object& object, const char* name) {
  const auto* value = object.if_contains(name);
  return value && value->is_object() ? &value->get_object() : nullptr;
}

}  // namespace

Result<void> verify(std::string_view header, std::string_view body, std::string_view secret, Instant now) {
  const auto signature = parse(header);
  if (!signature) return std::unexpected(signature.error());
  int64_t seconds = 0;
  const auto [end, error] =
      std::from_chars(signature->at.data(), signature->at.data() + signature->at.size(), seconds);
  constexpr int64_t kYear10000 = 253'402'300'800;
  if (error != std::errc() || end != signature->at.data() + signature->at.size() || seconds < 0 ||
      seconds >= kYear10000)
    return refused("The time of the header Stripe-Signature is no number of seconds.");
  const std::string wanted = hmac_sha256_hex(secret, std::string(signature->at) + "." + std::string(body));
  bool fits = false;
  for (const auto given : signature->v1) fits |= equal_in_constant_time(given, wanted);
  if (!fits) return refused("No signature fits the body: check the signing secret of the endpoint.");
  const Instant at = Instant(Seconds(seconds));
  if (at + kTolerance < now || now + kTolerance < at)
    return refused("The signature was made more than five minutes from now.");
  return {};
}

Result<Notice> read(std::string_view body) {
  const auto event = http::parse_json_object(body);
  if (!event) return std::unexpected(event.error());
  const std::string type = Reader(*event).text("type");
  const bool session =
      type == "checkout.session.completed" || type == "checkout.session.async_payment_succeeded";
  if (!session && type != "payment_intent.succeeded" && type != "charge.refunded") return Ignored{type};
  const auto* data = member(*event, "data");
  const auto* object = data ? member(*data, "object") : nullptr;
  if (object == nullptr) return fail(Code::kBadRequest, "BadRequest", "The event has no data.object.");
  Reader in(*object);
  in.usd();
  if (session) {
    if (in.text("payment_status") == "unpaid") return Ignored{type};  // another event comes when it is paid
    return in.finish(Paid{in.payment(in.id("payment_intent")), in.organization(), in.cents("amount_total")});
  }
  if (type == "payment_intent.succeeded")
    return in.finish(
        Paid{in.payment(in.text("id")), in.organization(), in.cents("amount_received", "amount")});
  return in.finish(
      PaidBack{in.payment(in.id("payment_intent")), in.payment(in.text("id")), in.cents("amount_refunded")});
}

}  // namespace nodus::metering::stripe
