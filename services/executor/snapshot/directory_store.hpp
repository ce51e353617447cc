// Snapshots as files of a directory: $store/<organization>/<sandbox>/<start>/<epoch>/<n>. An object is
// written beside, flushed, renamed, and then read back and compared with what was saved before it counts.
#pragma once

#include <filesystem>

#include "libs/base/clock.hpp"
#include "services/executor/app/ports.hpp"

namespace nodus::executor {

// Five parts of [a-z0-9-], the last three numbers.
bool valid_object_name(std::string_view object);

class DirectoryStore final : public SnapshotStore {
 public:
  DirectoryStore(std::filesystem::path root, const Clock& clock) : root_(std::move(root)), clock_(clock) {}
  Result<RestorePoint> save(const std::filesystem::path& upper, const std::string& object) override;
  Result<void> restore(const RestorePoint& from, const std::filesystem::path& upper) override;

 private:
  const std::filesystem::path root_;
  const Clock& clock_;
};

}  // namespace nodus::executor
