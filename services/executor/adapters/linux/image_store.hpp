// Images of the catalog: OCI layouts in one directory, unpacked once a digest. An image is what its
// manifest's digest says, or it is refused.
#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "libs/base/error.hpp"

namespace nodus::executor {

struct Image {
  std::filesystem::path rootfs;  // read-only by custom: the lower directory of every slot of this image
  uint32_t uid = 0;              // never 0
  uint32_t gid = 0;
  std::vector<std::string> env;  // "NAME=value"
  std::string working_dir;       // may be empty
};

class ImageStore {
 public:
  ImageStore(std::filesystem::path catalog, std::filesystem::path unpacked);
  // `name` is "nodus/agent-tools", `digest` "sha256:…" of its manifest. Fast when it was unpacked before.
  Result<Image> ensure(const std::string& name, const std::string& digest);
  // (name, digest of the tag latest) of every image of the catalog.
  std::vector<std::pair<std::string, std::string>> catalog() const;
  void remove_partial();             // what an earlier nodusd did not finish
  void stop() { stopping_ = true; }  // an unpacking under way fails

 private:
  Result<Image> unpack(const std::filesystem::path& layout, const std::string& hex,
                       const std::filesystem::path& partial);
  std::mutex& turn_of(const std::string& hex);
  const std::filesystem::path catalog_;
  const std::filesystem::path unpacked_;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::map<std::string, std::mutex> unpacking_;  // one a digest: images do not wait for each other
};

// user: "1000", "1000:1000", "agent", "agent:agent", resolved in the image's /etc/passwd and /etc/group. Root
// and nobody in particular are refused: commands run as the image's user, and never as root.
Result<std::pair<uint32_t, uint32_t>> resolve_user(const std::string& user, const std::string& passwd,
                                                   const std::string& group);

}  // namespace nodus::executor
