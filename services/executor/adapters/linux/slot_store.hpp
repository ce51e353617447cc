// The records of the slots: <state>/slots/<uid>-<epoch>/{intent,state}.json. The intent is on disk before
// anything is created, so that a restart knows what to finish or to remove.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "services/executor/app/host.hpp"

namespace nodus::executor {

class SlotStore final : public SlotRecords {
 public:
  explicit SlotStore(std::filesystem::path state_directory);

  std::filesystem::path directory(const SlotKey& slot) const;
  Result<void> create(const SlotRecord& record) override;
  Result<void> save_state(const SlotRecord& record, bool durably) override;
  Result<void> remove(const SlotKey& slot) override;
  Result<std::vector<SlotRecord>> load() override;

  // Random, kept across restarts of nodusd, new at each boot of the machine.
  Result<std::string> incarnation();
  Result<std::string> renew();  // a fresh one, written durably

 private:
  std::filesystem::path state_;
};

}  // namespace nodus::executor
