// What manifest.cpp and manifest_spec.cpp need of each other.
#pragma once

#include <string>

#include "services/lifecycle/adapters/manifest.hpp"

namespace nodus::lifecycle {

inline std::string path_of(const std::string& parent, std::string_view key) {
  return parent.empty() ? std::string(key) : parent + "." + std::string(key);
}
// Not there, or null: in Kubernetes' JSON both mean the default.
bool absent(const boost::json::object& in, std::string_view key);

void read_spec(Faults& faults, const boost::json::object& root, const SpecTimes& times, Manifest& out);
void read_state(Faults& faults, const boost::json::object& spec, bool& run);
void read_max_cost(Faults& faults, const boost::json::object& spec, std::optional<Money>& out);

}  // namespace nodus::lifecycle
