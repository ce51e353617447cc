// Errors are values. Every fallible function returns Result<T>; an Error carries what a person needs to act
// on it.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <vector>

namespace nodus {

// A handful of codes; each fixes the HTTP status and whether a retry can help (docs/errors).
enum class Code {
  kBadRequest,          // 400 malformed: not JSON, unknown field, wrong type
  kUnauthenticated,     // 401
  kPaymentRequired,     // 402
  kForbidden,           // 403
  kNotFound,            // 404
  kConflict,            // 409
  kPreconditionFailed,  // 412
  kTooLarge,            // 413
  kInvalid,             // 422 well-formed, but a value is out of range
  kTooManyRequests,     // 429 retry later
  kInternal,            // 500
  kUnavailable,         // 503 retry later
  kDeadlineExceeded,    // 504 retry later
};

int http_status(Code code);
bool retryable(Code code);

// One fault, at one place. `field` is a path such as "spec.resources.cpu"; empty when the fault has no place.
struct Cause {
  std::string field;
  std::string reason;   // CamelCase, e.g. FieldValueInvalid
  std::string message;  // what is wrong and what would be right

  bool operator==(const Cause&) const = default;
};

struct Error {
  Code code = Code::kInternal;
  std::string reason;   // CamelCase; one page each in docs/errors, e.g. SandboxStarting
  std::string message;  // a sentence: what is wrong, what to do next
  std::vector<Cause> causes;
  std::optional<int> retry_after_s;
  std::string details_json;  // extra members of Status.details as a JSON object, or empty

  bool operator==(const Error&) const = default;
};

template <class T = void>
using Result = std::expected<T, Error>;

// return fail(Code::kNotFound, "NotFound", "There is no Sandbox named \"x\".");
std::unexpected<Error> fail(Code code, std::string reason, std::string message);

}  // namespace nodus
