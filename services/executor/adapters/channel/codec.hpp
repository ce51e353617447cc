// The node channel's messages (schemas/nodus/node/v1/channel.proto) in the node's own words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "services/executor/app/reconciler.hpp"

namespace nodus::executor {

// What a node says of itself.
struct NodeIdentity {
  std::string machine;
  std::string incarnation;
  std::string data_path;  // host:port
  Shape capacity;
  std::string runtime;  // runsc | runc
  std::string profile;  // production | dev
  std::string org;      // empty: any
};

struct SyncAnswer {
  DesiredState desired;
  Millis poll{0};
  bool lost = false;  // this incarnation was declared lost
};

std::string encode_sync(const NodeIdentity& node, int64_t seen_version, const std::vector<SlotReport>& slots);
// A slot with a name, digest or shape that cannot be is left out and refused with a sentence in `refused`;
// the rest counts. Bytes that are no message are an error.
Result<SyncAnswer> decode_answer(std::string_view bytes, std::vector<std::string>& refused);

}  // namespace nodus::executor
