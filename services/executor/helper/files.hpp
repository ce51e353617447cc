// One file operation on one connection, in a process of its own that acts with the file system identity of
// the Sandbox's user. Blocking, with a deadline for each step and for the whole.
#pragma once

namespace nodus::helper {

inline constexpr unsigned kFileWorker_s = 6 * 3600;  // the longest operation: an upload that goes on

// Reads the request from `connection`, does it, answers, exits. `locks` is a file whose byte ranges serialise
// writers of one path; it is shared by all workers.
[[noreturn]] void serve_file(int connection, int locks);

}  // namespace nodus::helper
