// What a GET of one object or of many asks for besides the path: Kubernetes' query parameters and Accept.
#pragma once

#include <optional>
#include <string>

#include "libs/http/message.hpp"
#include "services/lifecycle/adapters/resources.hpp"
#include "services/lifecycle/app/ports.hpp"

namespace nodus::lifecycle {

// BadRequest/NotAcceptable (406) when nothing in Accept can be served.
Result<Form> form_of(const http::Request& request);

struct ReadOptions {
  Form form;
  ListQuery query;
  int64_t token_version = 0;  // with `continue`: what the first page had
  bool watch = false;
  bool bookmarks = false;
  bool initial_events = false;     // sendInitialEvents
  std::optional<int64_t> since;    // resourceVersion; absent or 0: any
  std::optional<Seconds> timeout;  // of a watch
};
// BadRequest or Invalid, with what to send instead.
Result<ReadOptions> read_options(const http::Request& request, const Resource& resource);

std::string continue_token(int64_t version, const std::string& after);

}  // namespace nodus::lifecycle
