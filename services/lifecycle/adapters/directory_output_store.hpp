// An output store in a directory: one file a Process, in one directory a Sandbox, both named by their uids.
// A uid that is not a UUID names nothing, and every step is opened below the one before it without following
// links. A file is frames with a checksum each; what a crash cut off is dropped at the next append.
#pragma once

#include <filesystem>
#include <memory>

#include "services/lifecycle/app/output_store.hpp"

namespace nodus::lifecycle {

// Unavailable/OutputStoreFailed when the directory cannot be made or written.
Result<std::unique_ptr<OutputStore>> make_directory_output_store(const std::filesystem::path& directory,
                                                                 OutputLimits limits);

}  // namespace nodus::lifecycle
