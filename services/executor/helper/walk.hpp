// Resolves paths inside the Sandbox component by component, without ever following a link in the kernel: what
// lies under /proc, /sys, /dev, /.nodus and /.run is refused however it is reached, so no magic link is
// crossed. Acts with the caller's file system identity.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nodus::helper {

struct Place {
  int directory = -1;  // O_PATH; the caller closes it
  std::string name;    // the last component; empty: the directory itself
  // What Missing::kCreate made, the outermost first: parent (the caller closes it) and name.
  std::vector<std::pair<int, std::string>> made;
};

enum class Missing { kRefuse, kCreate };  // directories on the way

// 0, or an errno: ENOENT, ENOTDIR, EACCES, ELOOP, EINVAL (not absolute, NUL), ENAMETOOLONG, and EXDEV for a
// place that is refused. The last component may not exist; when it is a symbolic link and `follow` is set,
// the place is where it leads.
int find_place(std::string_view path, Missing missing, bool follow, Place& place);

// Whether an absolute path without links lies where nobody has business (or outside the root). Allocates
// nothing.
bool refused_place(std::string_view path);

}  // namespace nodus::helper
