#include "libs/base/error.hpp"

#include <utility>

namespace nodus {

int http_status(Code code) {
  switch (code) {
    case Code::kBadRequest:
      return 400;
    case Code::kUnauthenticated:
      return 401;
    case Code::kPaymentRequired:
      return 402;
    case Code::kForbidden:
      return 403;
    case Code::kNotFound:
      return 404;
    case Code::kConflict:
      return 409;
    case Code::kPreconditionFailed:
      return 412;
    case Code::kTooLarge:
      return 413;
    case Code::kInvalid:
      return 422;
    case Code::kTooManyRequests:
      return 429;
    case Code::kInternal:
      return 500;
    case Code::kUnavailable:
      return 503;
    case Code::kDeadlineExceeded:
      return 504;
  }
  return 500;
}

bool retryable(Code code) {
  return code == Code::kTooManyRequests || code == Code::kUnavailable || code == Code::kDeadlineExceeded;
}

std::unexpected<Error> fail(Code code, std::string reason, std::string message) {
  return std::unexpected(Error{code, std::move(reason), std::move(message), {}, {}, {}});
}

}  // namespace nodus
