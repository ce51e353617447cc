// The machine: images, disks, networks, cgroups and a runtime, put together. See app/host.hpp.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "services/executor/adapters/linux/cgroup.hpp"
#include "services/executor/adapters/linux/container_watch.hpp"
#include "services/executor/adapters/linux/disk.hpp"
#include "services/executor/adapters/linux/image_store.hpp"
#include "services/executor/adapters/linux/layout.hpp"
#include "services/executor/adapters/linux/network.hpp"
#include "services/executor/adapters/linux/runtime.hpp"
#include "services/executor/app/host.hpp"

namespace nodus::executor {

struct LinuxHostOptions {
  std::filesystem::path state;
  std::filesystem::path images;
  std::filesystem::path helper;  // static binary
  std::string pool = "10.201.0.0/16";
  std::vector<std::string> resolvers;  // of policy Open
};

class LinuxHost final : public Host {
 public:
  static Result<std::unique_ptr<LinuxHost>> make(
      LinuxHostOptions options, std::function<std::unique_ptr<Runtime>(std::filesystem::path)>);

  // Layers 2 to 4 can be set up here: makes and removes a disk, a network and cgroups. One sentence if not.
  Result<void> self_check();
  // Unpacks the catalog's images, so that no first start waits for it.
  void unpack_catalog();
  void stop_unpacking() { images_.stop(); }
  // Destroys all that bears this node's label, records included.
  Result<void> purge();

  Result<std::filesystem::path> prepare(const SlotRecord& slot) override;
  Result<void> launch(const SlotRecord& slot) override;
  Result<void> limit_cpu(const SlotRecord& slot) override;
  Result<SlotView> view(const SlotRecord& slot) override;
  bool alive(const SlotKey& slot) override;
  Result<void> kill(const SlotKey& slot) override;
  Result<std::filesystem::path> upper(const SlotRecord& slot) override;
  Result<void> teardown(const SlotRecord& slot) override;
  void watch(const SlotKey& slot, std::function<void()> ended) override;
  void stop_watching() override { watch_.clear(); }
  Result<int> take_network_index(const std::vector<int>& used) override;
  Result<void> sweep(const std::vector<SlotRecord>& known) override;

  Runtime& runtime() { return *runtime_; }
  Network& network() { return network_; }
  const Layout& layout() const { return layout_; }

 private:
  LinuxHost(LinuxHostOptions options, AddressPool pool);
  Result<void> prepare_rootfs(const SlotRecord& slot, const Image& image);
  Result<void> write_resolvers(int root_fd);
  Result<void> network_made(const SlotKey& key);

  const LinuxHostOptions options_;
  const Layout layout_;
  ImageStore images_;
  Disk disk_;
  Network network_;
  Cgroup cgroup_;
  std::unique_ptr<Runtime> runtime_;
  ContainerWatch watch_;
  std::mutex networks_mutex_;
  std::map<SlotKey, std::future<Result<void>>> networks_;  // being made; after all that they work with
};

}  // namespace nodus::executor
