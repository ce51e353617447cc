// Container runtimes behind one small interface. A driver keeps nothing: all state is the runtime's own, in
// its root directory below the node's state, so a new nodusd finds what an old one started.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "libs/base/error.hpp"

namespace nodus::executor {

class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual std::string name() const = 0;       // runsc | runc
  virtual Result<std::string> version() = 0;  // the first line of --version; also: it can be run
  // Starts `bundle` detached as `id`; the container's output goes to `console`. Returns the host pid to
  // watch.
  virtual Result<pid_t> run(const std::string& id, const std::filesystem::path& bundle,
                            const std::filesystem::path& console) = 0;
  virtual Result<pid_t> running(const std::string& id) = 0;  // its pid; 0: not running or unknown
  virtual Result<void> destroy(const std::string& id) = 0;   // killed, deleted; unknown is fine
  virtual Result<std::vector<std::string>> list() = 0;       // all ids, running or not
};

// `root` is where the runtimes of this node keep their state; each has a directory of its own in it.
std::unique_ptr<Runtime> make_runsc(std::string binary, const std::filesystem::path& root);
std::unique_ptr<Runtime> make_runc(std::string binary, const std::filesystem::path& root);

}  // namespace nodus::executor
