// Errors to Status objects and back. The owner of what a client may learn about an error.
#include <fmt/format.h>

#include <array>
#include <boost/json.hpp>
#include <charconv>

#include "libs/base/random.hpp"
#include "libs/base/utf8.hpp"
#include "libs/http/client.hpp"
#include "libs/http/message.hpp"
#include "libs/telemetry/log.hpp"

namespace nodus::http {

namespace json_lib = boost::json;

namespace {

// Refusals of HTTP itself, which have no code of their own in libs/base.
constexpr std::array<std::pair<std::string_view, int>, 8> kOwnStatus{{{"MethodNotAllowed", 405},
                                                                      {"NotAcceptable", 406},
                                                                      {"Expired", 410},
                                                                      {"UnsupportedMediaType", 415},
                                                                      {"RangeNotSatisfiable", 416},
                                                                      {"RequestTimeout", 408},
                                                                      {"ExpectationFailed", 417},
                                                                      {"RequestHeaderFieldsTooLarge", 431}}};

int status_of(const Error& error) {
  if (error.code == Code::kBadRequest)
    for (const auto& [reason, status] : kOwnStatus)
      if (reason == error.reason) return status;
  return http_status(error.code);
}

json_lib::object details_of(const Error& error) {
  json_lib::object details;
  if (!error.details_json.empty()) {
    boost::system::error_code fault;
    const json_lib::value extra = json_lib::parse(error.details_json, fault);
    if (!fault && extra.is_object()) details = extra.get_object();
  }
  if (!error.causes.empty()) {
    json_lib::array causes;
    for (const Cause& cause : error.causes)
      causes.push_back({{"field", cause.field}, {"reason", cause.reason}, {"message", cause.message}});
    details["causes"] = std::move(causes);
  }
  if (error.retry_after_s) details["retryAfterSeconds"] = *error.retry_after_s;
  details["docs"] = "docs/errors/" + error.reason + ".md";
  return details;
}

Code code_of(int status) {
  switch (status) {
    case 401:
      return Code::kUnauthenticated;
    case 402:
      return Code::kPaymentRequired;
    case 403:
      return Code::kForbidden;
    case 404:
      return Code::kNotFound;
    case 409:
      return Code::kConflict;
    case 412:
      return Code::kPreconditionFailed;
    case 413:
      return Code::kTooLarge;
    case 422:
      return Code::kInvalid;
    case 429:
      return Code::kTooManyRequests;
    case 502:
    case 503:
      return Code::kUnavailable;
    case 504:
      return Code::kDeadlineExceeded;
    default:
      return status >= 400 && status < 500 ? Code::kBadRequest : Code::kInternal;
  }
}

std::string text_of(const json_lib::object& object, std::string_view key) {
  const json_lib::value* value = object.if_contains(key);
  return value && value->is_string() ? std::string(value->get_string()) : "";
}

void read_details(json_lib::object details, Error& error) {
  if (const auto* causes = details.if_contains("causes"); causes && causes->is_array())
    for (const auto& item : causes->get_array())
      if (const auto* cause = item.if_object())
        error.causes.push_back(
            {text_of(*cause, "field"), text_of(*cause, "reason"), text_of(*cause, "message")});
  if (const auto* seconds = details.if_contains("retryAfterSeconds"); seconds && seconds->is_int64())
    error.retry_after_s = static_cast<int>(std::clamp<int64_t>(seconds->get_int64(), 0, 86'400));
  details.erase("causes");
  details.erase("retryAfterSeconds");
  details.erase("docs");
  if (!details.empty()) error.details_json = json_lib::serialize(details);
}

// A message may repeat what a client sent, and a client may send any bytes: JSON is UTF-8.
std::string well_formed(const std::string& text) {
  if (valid_utf8(text)) return text;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    const size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    const auto character = std::string_view(text).substr(at, size);
    const bool good = character.size() == size && valid_utf8(character);
    out += good ? character : "\xef\xbf\xbd";
    at += good ? size : 1;
  }
  return out;
}

}  // namespace

Response status(const Error& error) {
  Error shown = error;
  if (error.code == Code::kInternal) {
    // What went wrong inside is for the operator: the client gets a reference to find it by.
    const std::string reference = to_hex(random_bytes(6));
    log::error("http.internal_error",
               {{"reference", reference}, {"reason", error.reason}, {"message", error.message}});
    shown =
        Error{Code::kInternal,
              "InternalError",
              fmt::format("Something went wrong on our side. Try again; if it goes on, report reference {}.",
                          reference),
              {},
              error.retry_after_s,
              ""};
  }
  const int code = status_of(shown);
  json_lib::object body{{"kind", "Status"},    {"apiVersion", "v1"},       {"metadata", json_lib::object()},
                        {"status", "Failure"}, {"message", shown.message}, {"reason", shown.reason}};
  body["details"] = details_of(shown);
  body["code"] = code;
  Response response = json(code, well_formed(json_lib::serialize(body)) + "\n");
  if (shown.retry_after_s) response.headers.set("Retry-After", fmt::to_string(*shown.retry_after_s));
  if (code == 401) response.headers.set("WWW-Authenticate", "Bearer");
  return response;
}

Error parse_status(const Response& response) {
  Error error;
  error.code = code_of(response.status);
  if (const auto header = response.headers.get("Retry-After")) {
    int seconds = 0;
    const auto [end, fault] = std::from_chars(header->data(), header->data() + header->size(), seconds);
    if (fault == std::errc() && end == header->data() + header->size() && seconds >= 0)
      error.retry_after_s = std::min(seconds, 86'400);
  }
  boost::system::error_code fault;
  const json_lib::value body = json_lib::parse(response.body, fault);
  const auto* object = fault ? nullptr : body.if_object();
  if (object && text_of(*object, "kind") == "Status") {
    error.reason = text_of(*object, "reason");
    error.message = text_of(*object, "message");
    if (const auto* details = object->if_contains("details"); details && details->is_object())
      read_details(details->get_object(), error);
  }
  if (error.reason.empty()) error.reason = "Unknown";
  if (error.message.empty()) error.message = fmt::format("The server answered HTTP {}.", response.status);
  return error;
}

}  // namespace nodus::http
