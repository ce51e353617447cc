// The disk of a slot: an ext4 filesystem of exactly resources.disk in a sparse file, and on it the writable
// layer of an overlay over the image. What a Sandbox writes can fill its own file and nothing else.
#pragma once

#include <mutex>

#include "libs/base/error.hpp"
#include "libs/linux/unique_fd.hpp"
#include "services/executor/adapters/linux/layout.hpp"

namespace nodus::executor {

class Disk {
 public:
  explicit Disk(const Layout& layout);
  // Formats (by copying a template; those of the eight sizes used last are kept), mounts, makes the empty
  // upper directory.
  Result<void> create(const SlotKey& key, int64_t bytes);
  Result<void> mount_existing(const SlotKey& key);  // after a restart of the machine
  // Overlay of the image, the node's skeleton and the upper directory at rootfs.
  Result<void> mount_rootfs(const SlotKey& key, const std::filesystem::path& image_rootfs);
  Result<void> unmount_rootfs(const SlotKey& key);
  Result<void> flush(const SlotKey& key);
  Result<void> destroy(const SlotKey& key);  // unmounts and removes; what is not there is fine

  // The directory laid over every image: mount points (/.nodus, /.run, /proc …) and /etc/hosts. A slot's
  // upper directory stays free of them, and so do snapshots.
  Result<void> make_skeleton();

 private:
  Result<linux::UniqueFd> template_of(int64_t bytes);
  const Layout& layout_;
  std::mutex formatting_;
};

}  // namespace nodus::executor
