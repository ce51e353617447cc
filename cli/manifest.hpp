// Manifests: YAML as a person writes it, to the JSON the API takes. Only what is not YAML, or not a mapping,
// is refused here; what the fields mean is the server's to judge.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "libs/base/error.hpp"

namespace nodus::cli {

inline constexpr std::string_view kDefaultImage = "nodus/agent-tools";

// One object for each document that is not empty. Errors: LocalFault, with line and column.
Result<std::vector<boost::json::object>> read_manifests(std::string_view yaml, const std::string& where);

// Puts the default image into a Sandbox that names none.
void fill_in_image(boost::json::object& manifest);

struct CreateFlags {
  std::string name, image, cpu, memory, disk, egress, idle_timeout, on_idle, max_lifetime, continuity,
      workdir, max_cost, state;
  std::vector<std::string> env, labels, annotations;  // NAME=VALUE

  bool operator==(const CreateFlags&) const = default;
};
// Errors: LocalFault, for what is not NAME=VALUE.
Result<boost::json::object> manifest_from(const CreateFlags& flags);
// Whether anything but the name is given.
bool any_given(const CreateFlags& flags);

// NAME=VALUE, … as an object; `flag` is named in the error.
Result<boost::json::object> pairs_of(const std::vector<std::string>& texts, const std::string& flag);

}  // namespace nodus::cli
