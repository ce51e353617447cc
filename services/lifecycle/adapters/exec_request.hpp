// What a client asks to be run: parsed, checked, every fault with its field path. A JSON body, or Kubernetes'
// query parameters (command=a&command=b&stdin=true&tty=true&env=K%3DV&workingDir=&timeout=).
#pragma once

#include <boost/json.hpp>

#include <string>

#include "libs/http/message.hpp"
#include "services/lifecycle/adapters/manifest.hpp"
#include "services/lifecycle/app/sandboxes.hpp"

namespace nodus::lifecycle {

struct ExecRequest {
  NewProcess process;
  boost::json::object body;  // what goes to the node only: env, workingDir, stdin, tty, its size
  std::string input;         // what a repeat of the request must repeat
  // What a stream carries; a terminal has no standard error of its own.
  bool wants_stdin = false;
  bool wants_stdout = true;
  bool wants_stderr = true;
};

Result<ExecRequest> parse_exec(const std::string& body, const SpecTimes& times);
// `input`: standard input in whole, when it does not come over the stream.
Result<ExecRequest> parse_exec_query(const http::Request& request, const std::string& input, bool streams,
                                     const SpecTimes& times);

// A switch of a query, as Kubernetes reads it: absent is `otherwise`, "" true. Adds a fault for anything
// else.
bool query_switch(Faults& faults, const http::Request& request, const std::string& name, bool otherwise);
// A number of bytes, 0 or more; absent: 0.
uint64_t query_offset(Faults& faults, const http::Request& request);

}  // namespace nodus::lifecycle
