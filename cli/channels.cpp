#include "cli/channels.hpp"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <charconv>

#include "cli/output.hpp"

namespace nodus::cli {

namespace json = boost::json;

std::string channel_message(Channel channel, std::string_view bytes) {
  std::string out(1, static_cast<char>(channel));
  return out.append(bytes);
}

std::string resize_message(int rows, int columns) {
  return channel_message(Channel::kResize, fmt::format(R"({{"Width":{},"Height":{}}})", columns, rows));
}

std::string close_message(Channel channel) {
  return channel_message(Channel::kClose, std::string(1, static_cast<char>(channel)));
}

Result<End> end_of(std::string_view status) {
  boost::system::error_code wrong;
  const json::value value = json::parse(status, wrong);
  const std::string outcome = wrong ? "" : text_at(value, "status");
  if (outcome != "Success" && outcome != "Failure")
    return fail(Code::kInternal, "BadAnswer", "The server's last word is not how the command ended.");
  End end;
  end.process = text_at(value, "details.process");
  if (outcome == "Success") return end;
  end.reason = text_at(value, "details.reason");
  end.message = text_at(value, "message");
  if (const json::value* causes = value_at(value, "details.causes"); causes && causes->is_array())
    for (const json::value& cause : causes->get_array()) {
      if (text_at(cause, "reason") != "ExitCode") continue;
      const std::string code = text_at(cause, "message");
      std::from_chars(code.data(), code.data() + code.size(), end.exit_code);
    }
  if (end.reason.empty()) {
    const std::string reason = text_at(value, "reason");
    end.reason = reason == "NonZeroExitCode" ? "NonZeroExit" : reason.empty() ? "Unknown" : reason;
  }
  return end;
}

}  // namespace nodus::cli
