// Kubernetes' remote-command subprotocol, v5.channel.k8s.io and v4: the first byte of each binary message is
// its channel. Pure.
#pragma once

#include <string>
#include <string_view>

#include "cli/frames.hpp"
#include "libs/base/error.hpp"

namespace nodus::cli {

enum class Channel : unsigned char {
  kStdin = 0,
  kStdout = 1,
  kStderr = 2,
  kStatus = 3,
  kResize = 4,
  kClose = 255
};

inline constexpr std::string_view kV5 = "v5.channel.k8s.io", kV4 = "v4.channel.k8s.io";

std::string channel_message(Channel channel, std::string_view bytes);
std::string resize_message(int rows, int columns);
std::string close_message(Channel channel);  // v5 only

// The final message, a Status: how the command ended. Errors: Internal/BadAnswer.
Result<End> end_of(std::string_view status);

}  // namespace nodus::cli
