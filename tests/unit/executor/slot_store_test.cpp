#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "libs/linux/files.hpp"
#include "services/executor/adapters/linux/slot_store.hpp"

namespace nodus::executor {
namespace {

namespace fs = std::filesystem;

class SlotStoreTest : public ::testing::Test {
 protected:
  SlotStoreTest() {
    std::string pattern = (fs::temp_directory_path() / "nodus-slots-XXXXXX").native();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  ~SlotStoreTest() override { fs::remove_all(directory_); }
  fs::path directory_;
};

SlotRecord record() {
  SlotRecord record;
  record.order = {.key = {SandboxUid("u"), 3},
                  .start = 2,
                  .org = "o",
                  .project = "p",
                  .name = "n",
                  .image = "nodus/x",
                  .image_digest = "sha256:0",
                  .shape = {1, 2, 3},
                  .open_egress = true,
                  .ephemeral = true,
                  .working_dir = "/w",
                  .restore_point = RestorePoint{"a/b/1/1/1", "ff", 7, from_micros(9)}};
  record.network_index = 12;
  return record;
}

TEST_F(SlotStoreTest, KeepsWhatItIsGiven) {
  SlotStore store(directory_);
  auto wanted = record();
  ASSERT_TRUE(store.create(wanted));
  EXPECT_EQ(store.load()->at(0), wanted);
  wanted.phase = Phase::kStopping;
  wanted.ran = true;
  wanted.failure = "Crashed";
  wanted.message = "m";
  wanted.saved = RestorePoint{"a/b/2/3/1", "ee", 8, from_micros(10)};
  for (const bool durably : {true, false}) {
    ASSERT_TRUE(store.save_state(wanted, durably));
    EXPECT_EQ(store.load()->at(0), wanted);
  }
  ASSERT_TRUE(store.remove(wanted.order.key));
  EXPECT_TRUE(store.load()->empty());
  ASSERT_TRUE(store.remove(wanted.order.key)) << "a repeat is fine";
}

TEST_F(SlotStoreTest, RemovesADirectoryWithoutAnIntentAndRefusesADamagedOne) {
  SlotStore store(directory_);
  fs::create_directories(directory_ / "slots" / "x-1" / "bundle");
  EXPECT_TRUE(store.load()->empty());
  EXPECT_FALSE(fs::exists(directory_ / "slots" / "x-1"));
  fs::create_directories(directory_ / "slots" / "y-1");
  ASSERT_TRUE(linux::write_file(directory_ / "slots" / "y-1" / "intent.json", "{"));
  EXPECT_FALSE(store.load());
}

// What a power cut leaves of a state that was not flushed.
TEST_F(SlotStoreTest, ASlotWithADamagedStateIsToBeDestroyedAndHoldsUpNobody) {
  SlotStore store(directory_);
  auto lost = record();
  auto other = record();
  other.order.key.epoch = 4;
  for (const char* left : {"", "{", "[]", R"({"phase":77,"ran":true})"}) {
    ASSERT_TRUE(store.create(lost));
    ASSERT_TRUE(store.create(other));
    ASSERT_TRUE(linux::write_file(store.directory(lost.order.key) / "state.json", left));
    const auto loaded = store.load();
    ASSERT_TRUE(loaded) << left;
    ASSERT_EQ(loaded->size(), 2U);
    for (const auto& slot : *loaded) {
      if (slot == other) continue;
      EXPECT_EQ(slot.order, lost.order);
      EXPECT_EQ(slot.network_index, lost.network_index);
      EXPECT_EQ(static_cast<int>(slot.phase), static_cast<int>(Phase::kStopping));
      EXPECT_TRUE(slot.discard);
      EXPECT_FALSE(slot.ran);
      EXPECT_EQ(slot.failure, "Crashed");
    }
  }
}

TEST_F(SlotStoreTest, TheIncarnationLastsAsLongAsTheBoot) {
  const auto first = *SlotStore(directory_).incarnation();
  EXPECT_EQ(*SlotStore(directory_).incarnation(), first);
  ASSERT_TRUE(linux::write_file(directory_ / "incarnation", "another boot\n" + first));
  EXPECT_NE(*SlotStore(directory_).incarnation(), first);
}

}  // namespace
}  // namespace nodus::executor
