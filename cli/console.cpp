#include "cli/console.hpp"

#include <fmt/format.h>
#include <array>
#include <utility>

namespace nodus::cli {

namespace {

constexpr Micros kQuiet = Seconds(2);

constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kNext{
    {{"InsufficientCredits", "Add credits, then try again."},
     {"BudgetExceeded",
      "Raise maxCostUSD (apply the manifest again with a higher one) or the Budget, then try again."},
     {"AlreadyExists", "Delete the Sandbox and create it again to change its image, shape or lifecycle."},
     {"SandboxFailed", "nodus get sb/NAME -o yaml shows why; nodus start sb/NAME tries again."},
     {"SandboxNotRunning", "It is being deleted; wait until it is gone, then create it again."},
     {"Unauthorized", "Set NODUS_API_KEY to a valid key."},
     {"Unauthenticated", "Set NODUS_API_KEY to a valid key."},
     {"SHA256Mismatch", "Read the file again, merge, and retry."},
     {"Forbidden", "Use a key whose role allows it, or ask an admin of the organization."},
     {"TooManyRequests", "Wait for a command to end, then try again."}}};

std::string_view next_step(const Error& error) {
  // Of a file the Sandbox's user is refused, not the key.
  if (error.reason == "Forbidden" && error.message.find("user") != std::string::npos) return "";
  for (const auto& [reason, text] : kNext)
    if (reason == error.reason) return text;
  if (error.code == Code::kNotFound && error.reason == "NotFound")
    return "nodus get sandboxes lists what is there.";
  if (error.code == Code::kUnauthenticated) return "Set NODUS_API_KEY to a valid key.";
  return "";
}

}  // namespace

int report(Console& console, const Error& error) {
  if (error.reason == "Interrupted" || error.reason == "Left") return 128 + console.interrupted();
  std::string text = error.message;
  if (!error.reason.empty() && error.reason != "Unknown" && error.reason != "LocalFault")
    text += fmt::format(" ({})", error.reason);
  console.err << "error: " << text << "\n";
  for (const Cause& cause : error.causes)
    console.err << "  " << cause.field << (cause.field.empty() ? "" : ": ") << cause.message << "\n";
  if (const std::string_view next = next_step(error); !next.empty()) console.err << next << "\n";
  const bool unreachable = error.reason == "ConnectionFailed" || error.reason == "ConnectionLost" ||
                           error.reason == "RequestTimedOut";
  if (unreachable) return kUnreachable;
  return error.reason == "LocalFault" ? kUsage : kRefused;
}

int usage_error(Console& console, const std::string& sentence) {
  console.err << "error: " << sentence << "\n";
  return kUsage;
}

Progress::Progress(Console& console, std::string sentence, When when)
    : console_(console), sentence_(std::move(sentence)), begun_(console.clock->boot()), when_(when) {}

void Progress::waiting() {
  if (shown_ || console_.quiet || when_ == When::kNever) return;
  if (when_ == When::kLater && console_.clock->boot() - begun_ < kQuiet) return;
  shown_ = true;
  console_.err << sentence_ << std::endl;
}

}  // namespace nodus::cli
