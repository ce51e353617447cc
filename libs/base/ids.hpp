// A strong type for every identifier: a ProjectId cannot be passed where an OrgId is wanted.
#pragma once

#include <compare>
#include <functional>
#include <string>
#include <utility>

namespace nodus {

template <class Tag>
class Id {
 public:
  Id() = default;
  explicit Id(std::string value) : value_(std::move(value)) {}
  const std::string& str() const { return value_; }
  bool empty() const { return value_.empty(); }
  auto operator<=>(const Id&) const = default;

 private:
  std::string value_;
};

using OrgId = Id<struct OrgTag>;           // DNS label
using ProjectId = Id<struct ProjectTag>;   // <organization>/<name>
using SandboxUid = Id<struct SandboxTag>;  // UUIDv4 text
using ProcessUid = Id<struct ProcessTag>;  // UUIDv4 text
using MachineId = Id<struct MachineTag>;   // DNS label

}  // namespace nodus

template <class Tag>
struct std::hash<nodus::Id<Tag>> {
  size_t operator()(const nodus::Id<Tag>& id) const { return std::hash<std::string>()(id.str()); }
};
