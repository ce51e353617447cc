#include "services/executor/adapters/linux/linux_host.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <future>

#include "libs/linux/files.hpp"
#include "libs/linux/mount.hpp"
#include "libs/linux/system_error.hpp"
#include "libs/telemetry/log.hpp"
#include "services/executor/adapters/linux/oci_spec.hpp"
#include "services/executor/app/step_timer.hpp"

namespace nodus::executor {
namespace fs = std::filesystem;
using linux::UniqueFd;

static constexpr const char* kWorkspace = "/workspace";

LinuxHost::LinuxHost(LinuxHostOptions options, AddressPool pool)
    : options_(std::move(options)),
      layout_(options_.state),
      images_(options_.images, layout_.images()),
      disk_(layout_),
      network_(layout_.label, pool),
      cgroup_(layout_.cgroup_parent()) {}

Result<std::unique_ptr<LinuxHost>> LinuxHost::make(
    LinuxHostOptions options, std::function<std::unique_ptr<Runtime>(fs::path)> make_runtime) {
  auto pool = AddressPool::parse(options.pool);
  if (!pool) return std::unexpected(pool.error());
  if (options.state.native().find_first_of(":,\\ ") != std::string::npos)
    return fail(Code::kInvalid, "FieldValueInvalid",
                "state.dir: a path without colon, comma, space or backslash.");
  std::unique_ptr<LinuxHost> host(new LinuxHost(std::move(options), *pool));
  host->runtime_ = make_runtime(host->layout_.state);
  for (const auto& path : {host->layout_.state, host->layout_.slots(), host->layout_.images()})
    if (auto made = linux::make_directories(path); !made) return std::unexpected(made.error());
  host->images_.remove_partial();
  if (auto made = host->disk_.make_skeleton(); !made) return std::unexpected(made.error());
  return host;
}

Result<fs::path> LinuxHost::prepare(const SlotRecord& slot) {
  const SlotKey& key = slot.order.key;
  // The kernel takes its time with namespaces and links; meanwhile the disk is made and filled. launch()
  // waits.
  auto network = std::async(std::launch::async, [this, key, slot] {
    StepTimer timer;
    auto made = network_.create(layout_.netns(key), slot.network_index, slot.order.open_egress);
    timer.done("network");
    log::debug("slot.network", {{"slot", key.text()}, {"steps_ms", timer.text()}});
    return made;
  });
  {
    const std::lock_guard lock(networks_mutex_);
    networks_[key] = std::move(network);
  }
  StepTimer timer;
  auto image = images_.ensure(slot.order.image, slot.order.image_digest);
  timer.done("image");
  Result<void> disk;
  if (image) disk = disk_.create(key, slot.order.shape.disk_bytes);
  timer.done("disk");
  log::debug("slot.disk", {{"slot", key.text()}, {"steps_ms", timer.text()}});
  if (!image) return std::unexpected(image.error());
  if (!disk) return std::unexpected(disk.error());
  return layout_.upper(key);
}

// Waits for the network that prepare() began to make; nothing is under way: fine.
Result<void> LinuxHost::network_made(const SlotKey& key) {
  std::future<Result<void>> network;
  {
    const std::lock_guard lock(networks_mutex_);
    const auto found = networks_.find(key);
    if (found == networks_.end()) return {};
    network = std::move(found->second);
    networks_.erase(found);
  }
  return network.get();
}

// Of a call that names paths of the Sandbox only: its user may read it.
static std::unexpected<Error> inside(const Error& error) {
  return fail(Code::kInvalid, "StartFailed", "Inside the Sandbox: " + error.message);
}

// No resolver under Deny: a name would be a way out.
Result<void> LinuxHost::write_resolvers(int root_fd) {
  std::string text;
  for (const auto& resolver : options_.resolvers) text += "nameserver " + resolver + "\n";
  auto file =
      linux::open_file_in_root(root_fd, "/etc/resolv.conf", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644);
  if (!file) return inside(file.error());
  if (::write(file->get(), text.data(), text.size()) < 0)
    return linux::system_failure(errno, "write", "/etc/resolv.conf");
  return {};
}

Result<void> LinuxHost::prepare_rootfs(const SlotRecord& slot, const Image& image) {
  const SlotKey& key = slot.order.key;
  if (auto mounted = disk_.mount_rootfs(key, image.rootfs); !mounted) return mounted;
  const auto root = layout_.rootfs(key);
  // After a restore as well: what a container's mounts go onto is a directory, not a link to elsewhere.
  for (const char* name : {"dev", "proc", "sys", ".run", ".nodus"})
    if (!linux::is_real_directory(root / name))
      return fail(Code::kInvalid, "StartFailed",
                  std::string("/") + name + " is not a directory in this Sandbox.");
  const UniqueFd root_fd(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root_fd) return linux::system_failure(errno, "open", root.native());
  auto temporary = linux::make_directories_in_root(root_fd.get(), "/tmp", 01777, 0, 0);
  if (!temporary) return inside(temporary.error());
  for (const std::string& path : {std::string(kWorkspace), slot.order.working_dir}) {
    if (path.empty()) continue;
    auto made = linux::make_directories_in_root(root_fd.get(), path, 0755, image.uid, image.gid);
    if (!made) return inside(made.error());
  }
  // An image may bring /workspace as root's.
  auto workspace = linux::open_in_root(root_fd.get(), kWorkspace, O_RDONLY | O_DIRECTORY);
  if (!workspace) return inside(workspace.error());
  struct stat status{};
  if (::fstat(workspace->get(), &status) == 0 && status.st_uid == 0 &&
      ::fchown(workspace->get(), image.uid, image.gid) != 0)
    return linux::system_failure(errno, "own", kWorkspace);
  return slot.order.open_egress ? write_resolvers(root_fd.get()) : Result<void>();
}

Result<void> LinuxHost::launch(const SlotRecord& slot) {
  const SlotKey& key = slot.order.key;
  auto image = images_.ensure(slot.order.image, slot.order.image_digest);
  if (!image) return std::unexpected(image.error());
  StepTimer timer;
  if (auto ready = prepare_rootfs(slot, *image); !ready) return ready;
  timer.done("rootfs");
  for (const auto& path : {layout_.bundle(key), layout_.run(key)})
    if (auto made = linux::make_directories(path); !made) return made;
  const auto spec = bundle_json({.hostname = slot.order.name,
                                 .rootfs = layout_.rootfs(key),
                                 .helper = options_.helper,
                                 .run = layout_.run(key),
                                 .netns = layout_.netns(key),
                                 .cgroup = layout_.cgroup_parent() + "/" + key.text(),
                                 .shape = slot.order.shape,
                                 .gvisor = runtime_->name() == "runsc"});
  if (auto put = linux::write_file(layout_.bundle(key) / "config.json", spec); !put) return put;
  timer.done("bundle");
  if (auto made = network_made(key); !made) return made;
  timer.done("network");
  auto pid = runtime_->run(key.text(), layout_.bundle(key), layout_.console(key));
  if (!pid) return std::unexpected(pid.error());
  timer.done("runtime");
  // Whoever connects now is not told to come again; a helper that never listens is found out by its patience.
  constexpr Millis kListen{1'000};
  linux::wait_for_file(layout_.run(key) / "helper.sock", kListen);
  timer.done("socket");
  log::debug("slot.container", {{"slot", key.text()}, {"steps_ms", timer.text()}});
  return {};
}

Result<void> LinuxHost::limit_cpu(const SlotRecord& slot) {
  return cgroup_.set_cpu(slot.order.key.text(), slot.order.shape.cpu_milli);
}

static bool has(const std::vector<std::string>& env, const std::string& name) {
  return std::any_of(env.begin(), env.end(),
                     [&](const auto& entry) { return entry.starts_with(name + "="); });
}

Result<SlotView> LinuxHost::view(const SlotRecord& slot) {
  const Order& order = slot.order;
  auto image = images_.ensure(order.image, order.image_digest);
  if (!image) return std::unexpected(image.error());
  SlotView view{.key = order.key,
                .start = order.start,
                .org = order.org,
                .project = order.project,
                .name = order.name,
                .directory = layout_.slot(order.key),
                .run_socket = layout_.run(order.key) / "helper.sock",
                .uid = image->uid,
                .gid = image->gid,
                .env = image->env,
                .working_dir = order.working_dir.empty() ? kWorkspace : order.working_dir,
                .tasks_limit = {}};
  if (runtime_->name() == "runc") view.tasks_limit = cgroup_.tasks_limit(order.key.text());
  if (!has(view.env, "HOME")) view.env.push_back(std::string("HOME=") + kWorkspace);
  if (!has(view.env, "PATH"))
    view.env.push_back("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  return view;
}

bool LinuxHost::alive(const SlotKey& slot) {
  auto pid = runtime_->running(slot.text());
  return pid && *pid > 0;
}

void LinuxHost::watch(const SlotKey& slot, std::function<void()> ended) {
  auto text = linux::read_file(layout_.bundle(slot) / "pid");
  const pid_t pid = text ? static_cast<pid_t>(std::strtol(text->c_str(), nullptr, 10)) : 0;
  watch_.add(slot, pid, std::move(ended));
}

Result<void> LinuxHost::kill(const SlotKey& slot) {
  watch_.remove(slot);
  if (auto gone = runtime_->destroy(slot.text()); !gone) return gone;
  return cgroup_.remove(slot.text());
}

Result<fs::path> LinuxHost::upper(const SlotRecord& slot) {
  const SlotKey& key = slot.order.key;
  if (auto gone = disk_.unmount_rootfs(key); !gone) return std::unexpected(gone.error());
  if (auto mounted = disk_.mount_existing(key); !mounted) return std::unexpected(mounted.error());
  if (auto flushed = disk_.flush(key); !flushed) return std::unexpected(flushed.error());
  return layout_.upper(key);
}

Result<void> LinuxHost::teardown(const SlotRecord& slot) {
  const SlotKey& key = slot.order.key;
  (void)network_made(key);  // what there is of it goes now
  if (auto gone = network_.destroy(layout_.netns(key), slot.network_index); !gone) return gone;
  if (auto gone = disk_.destroy(key); !gone) return gone;
  for (const auto& path : {layout_.bundle(key), layout_.run(key)})
    if (auto removed = linux::remove_tree(path); !removed) return removed;
  return {};
}

Result<int> LinuxHost::take_network_index(const std::vector<int>& used) {
  return network_.take_index(used);
}

}  // namespace nodus::executor
