// The OCI bundle of a slot: config.json as runsc and runc take it.
#pragma once

#include <filesystem>
#include <string>

#include "services/executor/domain/slot.hpp"

namespace nodus::executor {

struct BundleInput {
  std::string hostname;
  std::filesystem::path rootfs;
  std::filesystem::path helper;  // static binary: PID 1, mounted read-only at /.nodus/helper
  std::filesystem::path run;     // mounted at /.run
  std::filesystem::path netns;
  std::string cgroup;  // "/nodus-n1a2b3c/<slot>"
  Shape shape;
  bool gvisor = true;
};

std::string bundle_json(const BundleInput& input);

}  // namespace nodus::executor
