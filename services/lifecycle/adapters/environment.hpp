// The values of spec.env: sealed at rest (AES-256-GCM), told apart by keyed digests, shown nowhere.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "services/lifecycle/app/ports.hpp"

namespace nodus::lifecycle {

// Keys, newest first: the first seals and digests, all of them open and compare. To change the key, put the
// new one in front of the old one and restart.
class SealedEnvironment final : public Environment {
 public:
  // `keys`: NODUS_ENV_KEY, each 64 hex digits, separated by commas. Invalid/ConfigurationInvalid.
  static Result<SealedEnvironment> make(const std::string& keys);

  std::string digest(const ProjectId& project, const std::string& name, const std::string& value) override;
  bool same(const std::string& digest, const ProjectId& project, const std::string& name,
            const std::string& value) override;
  std::string input_hash(const std::string& body) override;
  std::string seal(const SandboxUid& uid, const std::map<std::string, std::string>& values) override;
  Result<std::map<std::string, std::string>> open(const SandboxUid& uid, const std::string& sealed) override;

 private:
  struct Key {
    std::string id;  // of the digests made with it
    std::string sealing;
    std::string digesting;
  };
  std::vector<Key> keys_;
};

}  // namespace nodus::lifecycle
