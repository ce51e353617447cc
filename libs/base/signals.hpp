// Orderly ends. Call block_termination() in main before any thread exists; every thread then inherits the
// mask.
#pragma once

namespace nodus {

void block_termination();    // SIGTERM and SIGINT wait for wait_for_termination(); SIGPIPE is ignored
int wait_for_termination();  // returns the signal

}  // namespace nodus
