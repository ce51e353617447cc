// Firewall rules through libnftables: each call is one transaction, all of it or nothing. The owner of
// libnftables. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "libs/base/error.hpp"

namespace nodus::linux {

class Nft {
 public:
  Nft();
  ~Nft();
  Result<void> apply(const std::string& commands);        // the language of nft -f
  Result<std::string> query(const std::string& command);  // e.g. "list counters …"; JSON

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nodus::linux
