// Hostile snapshots: each is made by hand and must not reach anything outside the tree it is unpacked into.
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace nodus::executor::test {
namespace fs = std::filesystem;

class Forge {
 public:
  explicit Forge(const fs::path& path) : archive_(archive_write_new()) {
    archive_write_set_format_pax(archive_);
    archive_write_add_filter_zstd(archive_);
    archive_write_set_options(archive_, "hdrcharset=BINARY");
    archive_write_open_filename(archive_, path.c_str());
  }
  ~Forge() {
    archive_entry_free(entry_);
    archive_write_free(archive_);
  }
  archive_entry* entry(const std::string& path, mode_t type, mode_t mode = 0755) {
    if (entry_) archive_entry_free(entry_);
    entry_ = archive_entry_new();
    archive_entry_set_pathname(entry_, path.c_str());
    archive_entry_set_filetype(entry_, type);
    archive_entry_set_perm(entry_, mode);
    archive_entry_set_size(entry_, 0);
    return entry_;
  }
  Forge& put(const std::string& data = "") {
    if (!data.empty()) archive_entry_set_size(entry_, static_cast<int64_t>(data.size()));
    archive_write_header(archive_, entry_);
    if (!data.empty()) archive_write_data(archive_, data.data(), data.size());
    return *this;
  }
  Forge& directory(const std::string& path) { return entry(path, S_IFDIR), put(); }
  Forge& file(const std::string& path, const std::string& data = "evil") {
    return entry(path, S_IFREG, 0644), put(data);
  }
  Forge& link(const std::string& path, const std::string& target) {
    archive_entry_set_symlink(entry(path, S_IFLNK), target.c_str());
    return put();
  }
  Forge& hard(const std::string& path, const std::string& target, const std::string& data = "") {
    archive_entry_set_hardlink(entry(path, S_IFREG), target.c_str());
    return put(data);
  }
  Forge& attribute(const std::string& path, const std::string& name, const std::string& value) {
    archive_entry_xattr_add_entry(entry(path, S_IFREG, 0644), name.c_str(), value.data(), value.size());
    return put("data");
  }
  Forge& node(const std::string& path, mode_t type, int major, int minor) {
    archive_entry_set_rdev(entry(path, type), makedev(major, minor));
    return put();
  }

 private:
  archive* archive_;
  archive_entry* entry_ = nullptr;
};

struct Attack {
  const char* name;
  std::function<void(Forge&)> make;
  bool refused = true;  // else: unpacked, with what is dangerous left out
};

// `canary`: absolute, outside; from where the archives are unpacked it is also ../../canary.
std::vector<Attack> attacks(const std::string& canary);

}  // namespace nodus::executor::test
