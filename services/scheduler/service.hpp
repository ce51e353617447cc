// All parts of nodus-scheduler, put together. Owns its threads from start() to destruction.
#pragma once

#include <memory>

#include "services/scheduler/config.hpp"

namespace nodus::scheduler {

class Service {
 public:
  // Errors: a missing dependency (database, port, broker), one sentence.
  static Result<std::unique_ptr<Service>> start(const Config& config, const Clock& clock);
  ~Service();  // drains: answers what is under way, commits nothing after
  int port() const;

 private:
  struct Parts;
  explicit Service(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace nodus::scheduler
