// A project's id is <organization>/<name>: names are unique within an organization only, so that making one
// never tells that somebody else has it. What people write and read is the name.
#pragma once

#include <string>

#include "libs/base/ids.hpp"

namespace nodus::lifecycle {

inline ProjectId project_id(const OrgId& org, const std::string& name) {
  return ProjectId(org.str() + "/" + name);
}

inline std::string project_name(const ProjectId& project) {
  const size_t slash = project.str().rfind('/');
  return slash == std::string::npos ? project.str() : project.str().substr(slash + 1);
}

}  // namespace nodus::lifecycle
