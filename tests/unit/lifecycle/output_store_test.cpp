// Outputs in a directory: what is acknowledged is there, a crash costs what was not, and no name leads
// anywhere else.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "services/lifecycle/adapters/directory_output_store.hpp"

namespace nodus::lifecycle {
namespace {
namespace fs = std::filesystem;

const OutputKey kKey{SandboxUid("11111111-1111-4111-8111-111111111111"),
                     ProcessUid("22222222-2222-4222-8222-222222222222")};

OutputKey other(char digit) {
  std::string uid = kKey.process.str();
  uid.back() = digit;
  return {kKey.sandbox, ProcessUid(uid)};
}

class OutputStoreTest : public ::testing::Test {
 protected:
  OutputStoreTest() {
    char name[] = "/tmp/nodus-outputs-XXXXXX";
    root_ = mkdtemp(name);
    open({});
  }
  ~OutputStoreTest() override { fs::remove_all(root_); }
  void open(OutputLimits limits) { store_ = std::move(*make_directory_output_store(root_, limits)); }
  fs::path file(const OutputKey& key) const { return root_ / key.sandbox.str() / key.process.str(); }
  std::string text(const OutputKey& key, uint64_t offset = 0, size_t most = 1 << 20) {
    std::string out;
    OutputCursor cursor{offset, 0};
    for (;;) {
      const auto part = store_->read(key, cursor, most);
      EXPECT_TRUE(part.has_value());
      if (!part || part->empty()) return out;
      for (const auto& frame : *part) out += frame.data;
    }
  }
  Result<uint64_t> put(const OutputKey& key, uint64_t from, const std::string& data, int stream = 1) {
    const OutputFrame frame{stream, from, data};
    return store_->append(key, from, std::span(&frame, 1));
  }

  fs::path root_;
  std::unique_ptr<OutputStore> store_;
};

TEST_F(OutputStoreTest, KeepsFramesAndGoesOnAfterARestart) {
  EXPECT_EQ(*put(kKey, 0, "hello "), 6u);
  EXPECT_EQ(*put(kKey, 6, "err", 2), 9u);
  open({});
  EXPECT_EQ(*put(kKey, 9, "world"), 14u);
  EXPECT_EQ(text(kKey), "hello errworld");
  EXPECT_EQ(text(kKey, 7, 1), "rrworld") << "from the middle of a frame, a frame at a time";
  const auto sizes = store_->sizes(kKey);
  EXPECT_EQ(sizes->stdout_bytes, 11u);
  EXPECT_EQ(sizes->stderr_bytes, 3u);
  EXPECT_EQ(sizes->end, 14u);
}

TEST_F(OutputStoreTest, TakesNothingThatDoesNotGoOnFromWhatIsKept) {
  EXPECT_EQ(*put(kKey, 0, "abc"), 3u);
  EXPECT_EQ(*put(kKey, 0, "abc"), 3u) << "a repeat";
  EXPECT_EQ(*put(kKey, 9, "later"), 3u) << "a gap";
  EXPECT_EQ(text(kKey), "abc");
  EXPECT_EQ(*store_->append(kKey, 3, {}), 3u) << "only asked";
}

TEST_F(OutputStoreTest, DropsWhatACrashCutOff) {
  ASSERT_TRUE(put(kKey, 0, "whole"));
  ASSERT_TRUE(put(kKey, 5, "broken off"));
  fs::resize_file(file(kKey), fs::file_size(file(kKey)) - 3);
  open({});
  EXPECT_EQ(text(kKey), "whole");
  EXPECT_EQ(*put(kKey, 15, "x"), 5u) << "says where to go on";
  EXPECT_EQ(*put(kKey, 5, " again"), 11u);
  EXPECT_EQ(text(kKey), "whole again");
  std::fstream damaged(file(kKey), std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(static_cast<std::streamoff>(fs::file_size(file(kKey)) - 1));
  damaged.put('?');
  damaged.close();
  open({});
  EXPECT_EQ(text(kKey), "whole") << "a frame that is not what was written";
}

TEST_F(OutputStoreTest, ASealedOutputIsComplete) {
  ASSERT_TRUE(put(kKey, 0, "done"));
  ASSERT_TRUE(store_->seal(kKey));
  EXPECT_EQ(put(kKey, 4, "more").error().reason, "OutputSealed");
  EXPECT_EQ(text(kKey), "done");
  EXPECT_TRUE(store_->seal(other('9'))) << "one that wrote nothing";
}

TEST_F(OutputStoreTest, RefusesMoreThanAProcessMayKeepAndFramesOutOfOrder) {
  open({.process_bytes = 10});
  EXPECT_EQ(put(kKey, 0, "12345678901").error().reason, "OutputTooLarge");
  const OutputFrame far{1, uint64_t{1} << 63, "x"};
  EXPECT_EQ(store_->append(kKey, 0, std::span(&far, 1)).error().reason, "OutputTooLarge");
  const std::vector<OutputFrame> twice{{1, 0, "ab"}, {1, 1, "cd"}};
  EXPECT_EQ(store_->append(kKey, 0, twice).error().reason, "BadRequest");
  const OutputFrame odd{3, 0, "x"};
  EXPECT_EQ(store_->append(kKey, 0, std::span(&odd, 1)).error().reason, "BadRequest");
  EXPECT_EQ(text(kKey), "");
}

TEST_F(OutputStoreTest, NamesThatAreNoUuidsLeadNowhere) {
  for (const char* name :
       {"..", ".", "", "a/b", "../../etc/passwd", "11111111-1111-4111-8111-11111111111/"}) {
    EXPECT_FALSE(put({SandboxUid(name), kKey.process}, 0, "x")) << name;
    EXPECT_FALSE(put({kKey.sandbox, ProcessUid(name)}, 0, "x")) << name;
    EXPECT_TRUE(store_->remove(SandboxUid(name))) << name;
  }
  const fs::path outside = root_.string() + "-outside";
  fs::create_directory(outside);
  fs::create_directory_symlink(outside, root_ / "33333333-3333-4333-8333-333333333333");
  EXPECT_FALSE(put({SandboxUid("33333333-3333-4333-8333-333333333333"), kKey.process}, 0, "x"));
  EXPECT_TRUE(fs::is_empty(outside));
  fs::remove_all(outside);
}

TEST_F(OutputStoreTest, TheOldestOfEndedCommandsGoWhenASandboxHasTooMuch) {
  open({.process_bytes = 1 << 20, .sandbox_bytes = 3000});
  for (const char digit : {'1', '2', '3'}) {
    ASSERT_TRUE(put(other(digit), 0, std::string(1000, digit)));
    if (digit != '1') ASSERT_TRUE(store_->seal(other(digit)));
    const timespec when[2] = {{1'000'000 + digit, 0}, {1'000'000 + digit, 0}};
    utimensat(AT_FDCWD, file(other(digit)).c_str(), when, 0);
  }
  ASSERT_TRUE(put(other('4'), 0, std::string(1000, '4')));
  EXPECT_EQ(text(other('1')).size(), 1000u) << "it runs";
  EXPECT_EQ(text(other('2')).size(), 0u);
  EXPECT_EQ(text(other('4')).size(), 1000u);
}

TEST_F(OutputStoreTest, GoesWithItsSandboxOrItsAge) {
  ASSERT_TRUE(put(kKey, 0, "x"));
  ASSERT_TRUE(store_->remove(kKey.sandbox));
  EXPECT_FALSE(fs::exists(root_ / kKey.sandbox.str()));
  EXPECT_EQ(text(kKey), "");
  ASSERT_TRUE(put(kKey, 0, "again"));
  EXPECT_EQ(text(kKey), "again");
  const SystemClock clock;
  EXPECT_EQ(*store_->sweep(clock.now()), 0);
  EXPECT_EQ(*store_->sweep(clock.now() + std::chrono::hours(24 * 8)), 1);
  EXPECT_FALSE(fs::exists(root_ / kKey.sandbox.str()));
}

}  // namespace
}  // namespace nodus::lifecycle
