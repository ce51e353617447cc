// The image catalog: OCI layouts below one directory. "nodus/agent-tools" is the layout
// <directory>/agent-tools, tag "latest" (or the tag after ':'). The digest is that of the manifest its index
// names now.
#pragma once

#include <filesystem>
#include <string>

#include "services/lifecycle/app/ports.hpp"

namespace nodus::lifecycle {

class OciImages final : public Images {
 public:
  explicit OciImages(std::filesystem::path directory) : directory_(std::move(directory)) {}
  Result<std::string> resolve(const std::string& reference) override;

 private:
  std::filesystem::path directory_;
};

}  // namespace nodus::lifecycle
