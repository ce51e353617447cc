// The body of POST …/processes: JSON to a CommandRequest, every fault listed with its field path.
#pragma once

#include <string_view>

#include "services/executor/process/command.hpp"

namespace nodus::executor {

inline constexpr size_t kExecBodyLimit = 3u << 20;

// Errors: BadRequest (not JSON, unknown field, wrong type), Invalid (a value out of range).
Result<CommandRequest> parse_exec_request(std::string_view body);

bool valid_uid(std::string_view text);     // UUID, lowercase
bool valid_sha256(std::string_view text);  // 64 lowercase hex digits

}  // namespace nodus::executor
