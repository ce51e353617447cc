// A directory tree to and from a snapshot's archive. Neither direction follows a symbolic link or leaves the
// tree: every step is relative to a directory descriptor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "libs/base/error.hpp"
#include "services/executor/snapshot/entry.hpp"

namespace nodus::executor {

struct TreeSummary {
  int64_t entries = 0;
  int64_t data_bytes = 0;
  std::string digest;  // over every entry and its data, in order
  bool operator==(const TreeSummary&) const = default;
};

// What nobody could restore is left out: sockets, device nodes, extended attributes outside the allowed list;
// and what a write by the file service left behind when it was cut off.
// kCannotBeSaved above kMostEntries, kMostDepth, kMostPath, kMostAttributes, kMostKept or `data_limit` bytes
// of data.
Result<TreeSummary> write_tree(int root, ArchiveWriter& archive, int64_t data_limit);

// Reads an archive to its end without writing anything.
Result<TreeSummary> check_archive(ArchiveReader& archive, int64_t data_limit);

// Unpacks into the empty directory `root`. Every name must be new, every parent there before its children;
// device nodes but the whiteout are refused, set-id bits and foreign attributes dropped. A
// directory's time is set when the next entry lies outside of it, so no more is kept than one path's parents.
Result<void> read_tree(int root, ArchiveReader& archive, int64_t data_limit);

// Size of the file system that holds `directory`, in bytes.
Result<int64_t> capacity_of(int directory);

}  // namespace nodus::executor
