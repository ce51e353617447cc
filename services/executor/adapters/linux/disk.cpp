#include "services/executor/adapters/linux/disk.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "libs/linux/files.hpp"
#include "libs/linux/loop.hpp"
#include "libs/linux/mount.hpp"
#include "libs/linux/subprocess.hpp"
#include "libs/linux/system_error.hpp"

namespace nodus::executor {
namespace fs = std::filesystem;
using linux::system_failure;
using linux::UniqueFd;

Disk::Disk(const Layout& layout) : layout_(layout) {}

Result<void> Disk::make_skeleton() {
  const auto root = layout_.skeleton();
  for (const char* name : {".nodus", ".run", "proc", "sys", "dev", "etc"}) {
    if (auto made = linux::make_directories(root / name, 0755); !made) return made;
    ::chmod((root / name).c_str(), 0755);
  }
  ::chmod(root.c_str(), 0755);
  if (auto put = linux::write_file(root / ".nodus" / "helper", ""); !put) return put;
  if (auto put = linux::write_file(root / "etc" / "hosts", "127.0.0.1 localhost\n"); !put) return put;
  ::chmod((root / "etc" / "hosts").c_str(), 0644);
  return {};
}

constexpr size_t kMostTemplates = 8;  // sizes are the users' choice

static void drop_oldest_templates(const fs::path& directory) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".img") found.emplace_back(it->last_write_time(error), it->path());
  std::sort(found.begin(), found.end());
  for (size_t i = 0; i + kMostTemplates < found.size(); ++i) fs::remove(found[i].second, error);
}

// Open, since another start may drop it from its directory.
// No journal: after a crash of the machine a Sandbox starts from its last snapshot, never from this file.
Result<UniqueFd> Disk::template_of(int64_t bytes) {
  const auto path = layout_.templates() / ("ext4-" + std::to_string(bytes) + ".img");
  const std::lock_guard lock(formatting_);
  if (UniqueFd kept(::open(path.c_str(), O_RDONLY | O_CLOEXEC)); kept) {
    ::futimens(kept.get(), nullptr);  // used just now
    return kept;
  }
  if (auto made = linux::make_directories(layout_.templates()); !made) return std::unexpected(made.error());
  const fs::path partial = path.native() + ".partial";
  UniqueFd fd(::open(partial.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd || ::ftruncate(fd.get(), bytes) != 0) return system_failure(errno, "create", partial.native());
  auto formatted = linux::run_checked(
      {.argv = {"mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal,^resize_inode", "-E",
                "lazy_itable_init=1,nodiscard,assume_storage_prezeroed=1", partial.native()},
       .deadline = Millis(60'000)});
  if (!formatted) return std::unexpected(formatted.error());
  if (::rename(partial.c_str(), path.c_str()) != 0) return system_failure(errno, "rename", path.native());
  drop_oldest_templates(layout_.templates());
  return fd;
}

static Result<void> copy_sparse(const UniqueFd& in, const fs::path& to, int64_t bytes) {
  const UniqueFd out(::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!out) return system_failure(errno, "open", to.native());
  if (::ftruncate(out.get(), bytes) != 0) return system_failure(errno, "size", to.native());
  off_t at = 0;
  while ((at = ::lseek(in.get(), at, SEEK_DATA)) >= 0) {
    const off_t end = ::lseek(in.get(), at, SEEK_HOLE);
    off_t to_offset = at;
    while (at < end) {
      const ssize_t copied =
          ::copy_file_range(in.get(), &at, out.get(), &to_offset, static_cast<size_t>(end - at), 0);
      if (copied <= 0) return system_failure(copied < 0 ? errno : EIO, "copy", to.native());
    }
  }
  return {};
}

Result<void> Disk::create(const SlotKey& key, int64_t bytes) {
  auto formatted = template_of(bytes);
  if (!formatted) return std::unexpected(formatted.error());
  if (auto copied = copy_sparse(*formatted, layout_.disk_image(key), bytes); !copied) return copied;
  if (auto mounted = mount_existing(key); !mounted) return mounted;
  for (const auto& path : {layout_.upper(key), layout_.work(key)})
    if (auto made = linux::make_directories(path, 0755); !made) return made;
  if (::chmod(layout_.upper(key).c_str(), 0755) != 0) return system_failure(errno, "chmod", "upper");
  return {};
}

Result<void> Disk::mount_existing(const SlotKey& key) {
  if (linux::is_mounted(layout_.disk(key))) return {};
  if (auto made = linux::make_directories(layout_.disk(key)); !made) return made;
  auto device = linux::attach_loop(layout_.disk_image(key));
  if (!device) return std::unexpected(device.error());
  return linux::mount(device->path, layout_.disk(key), "ext4", MS_NOSUID | MS_NODEV | MS_NOATIME,
                      "noinit_itable");
}

Result<void> Disk::mount_rootfs(const SlotKey& key, const fs::path& image_rootfs) {
  if (auto made = linux::make_directories(layout_.rootfs(key)); !made) return made;
  return linux::mount("overlay", layout_.rootfs(key), "overlay", MS_NOSUID | MS_NODEV | MS_NOATIME,
                      "lowerdir=" + layout_.skeleton().native() + ":" + image_rootfs.native() + ",upperdir=" +
                          layout_.upper(key).native() + ",workdir=" + layout_.work(key).native() +
                          ",redirect_dir=off,index=off,metacopy=off");
}

Result<void> Disk::unmount_rootfs(const SlotKey& key) {
  return linux::unmount(layout_.rootfs(key));
}

Result<void> Disk::flush(const SlotKey& key) {
  const UniqueFd fd(::open(layout_.disk(key).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::syncfs(fd.get()) != 0) return system_failure(errno, "sync", layout_.disk(key).native());
  return {};
}

Result<void> Disk::destroy(const SlotKey& key) {
  if (auto gone = unmount_rootfs(key); !gone) return gone;
  if (auto gone = linux::unmount(layout_.disk(key)); !gone) return gone;
  for (const auto& device : linux::loops_below(layout_.slot(key)))
    if (auto detached = linux::detach_loop(device); !detached) return detached;
  for (const auto& path : {layout_.rootfs(key), layout_.disk(key), layout_.disk_image(key)})
    if (auto removed = linux::remove_tree(path); !removed) return removed;
  return {};
}

}  // namespace nodus::executor
