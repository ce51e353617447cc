// Where a slot's things are on this machine. Their paths and names are their label: what lies below the state
// directory or begins with the node's label is this node's, and nothing else is touched.
#pragma once

#include <filesystem>
#include <string>

#include "services/executor/domain/slot.hpp"

namespace nodus::executor {

struct Layout {
  std::filesystem::path state;
  std::string label;  // "n1a2b3c": of links, cgroups and firewall tables

  explicit Layout(const std::filesystem::path& state_directory);

  std::filesystem::path slots() const { return state / "slots"; }
  std::filesystem::path slot(const SlotKey& key) const { return slots() / key.text(); }
  std::filesystem::path disk_image(const SlotKey& key) const { return slot(key) / "disk.img"; }
  std::filesystem::path disk(const SlotKey& key) const { return slot(key) / "disk"; }  // ext4
  std::filesystem::path upper(const SlotKey& key) const { return disk(key) / "upper"; }
  std::filesystem::path work(const SlotKey& key) const { return disk(key) / "work"; }
  std::filesystem::path rootfs(const SlotKey& key) const { return slot(key) / "rootfs"; }  // overlay
  std::filesystem::path bundle(const SlotKey& key) const { return slot(key) / "bundle"; }
  std::filesystem::path run(const SlotKey& key) const { return slot(key) / "run"; }  // /.run inside
  std::filesystem::path netns(const SlotKey& key) const { return slot(key) / "netns"; }
  std::filesystem::path console(const SlotKey& key) const { return slot(key) / "console.log"; }
  std::filesystem::path images() const { return state / "images"; }
  std::filesystem::path templates() const { return state / "templates"; }
  std::filesystem::path skeleton() const { return state / "skeleton"; }
  std::string cgroup_parent() const { return "/nodus-" + label; }
};

}  // namespace nodus::executor
