// Snapshots on a real ext4 and a real overlay: what a Sandbox made comes back the same, 20 times over, and no
// archive, however it was made, touches anything outside the tree it is unpacked into.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <random>
#include <set>

#include "libs/base/random.hpp"
#include "services/executor/snapshot/directory_store.hpp"
#include "services/executor/snapshot/entry.hpp"
#include "tests/integration/executor_process/attacks.hpp"

namespace nodus::executor {
namespace {
namespace fs = std::filesystem;
using test::Forge;

int run(const std::string& command) {
  return system((command + " >/dev/null 2>&1").c_str());
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(file ? fs::file_size(path) : 0, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

// Everything about a tree that a snapshot promises to keep, one line an entry.
std::string describe(const fs::path& root) {
  std::vector<std::string> lines;
  std::map<std::pair<dev_t, ino_t>, std::string> first;
  std::vector<fs::path> paths = {root};
  for (const auto& entry : fs::recursive_directory_iterator(root)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    struct stat info{};
    EXPECT_EQ(lstat(path.c_str(), &info), 0);
    std::string line = path.lexically_relative(root).string();
    line += " " + std::to_string(info.st_mode) + " " + std::to_string(info.st_uid) + ":" +
            std::to_string(info.st_gid);
    line += " " + std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec);
    if (S_ISREG(info.st_mode)) {
      line += " " + std::to_string(info.st_size) + " " + sha256_hex(text_of(path));
      line +=
          " same as " +
          first.try_emplace({info.st_dev, info.st_ino}, path.lexically_relative(root).string()).first->second;
    }
    if (S_ISLNK(info.st_mode)) line += " -> " + fs::read_symlink(path).string();
    char value[256];
    const ssize_t size = lgetxattr(path.c_str(), "user.kept", value, sizeof value);
    if (size >= 0) line += " kept=" + std::string(value, size);
    lines.push_back(line);
  }
  std::string all;
  for (const auto& line : lines) all += line + "\n";
  return all;
}

class SnapshotTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Mounts of these tests are seen by this process alone and go away with it.
    if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0) {
      fprintf(stderr, "These tests need root: they mount file systems in a namespace of their own.\n");
      _exit(1);
    }
  }
  void SetUp() override {
    char path[] = "/tmp/nodus-snapshot-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    top = path;
    ASSERT_EQ(run("mount -t tmpfs none " + top.string()), 0);
    fs::create_directory(top / "store");
    store = std::make_unique<DirectoryStore>(top / "store", clock);
  }
  void TearDown() override {
    store.reset();
    while (!mounted.empty()) {
      umount2(mounted.back().c_str(), MNT_DETACH);
      mounted.pop_back();
    }
    umount2(top.c_str(), MNT_DETACH);
    fs::remove(top);
  }
  // A disk as a slot has it; answers where its (empty) upper is.
  fs::path new_disk(int mebibytes = 256) {
    const fs::path at = top / ("disk" + std::to_string(++disks));
    fs::create_directory(at);
    EXPECT_EQ(run("truncate -s " + std::to_string(mebibytes) + "M " + at.string() +
                  ".img && mkfs.ext4 -q -b 4096 -m 0 " + at.string() + ".img && mount -o loop " +
                  at.string() + ".img " + at.string()),
              0);
    mounted.push_back(at);
    fs::create_directory(at / "upper");
    fs::create_directory(at / "work");
    return at / "upper";
  }
  fs::path mount_overlay(const fs::path& lower, const fs::path& upper) {
    const fs::path at = top / ("merged" + std::to_string(++disks));
    fs::create_directory(at);
    EXPECT_EQ(run("mount -t overlay none -o lowerdir=" + lower.string() + ",upperdir=" + upper.string() +
                  ",workdir=" + (upper.parent_path() / "work").string() + " " + at.string()),
              0);
    mounted.push_back(at);
    return at;
  }
  std::string object(int n) { return "acme/" + sandbox + "/1/1/" + std::to_string(n); }

  SystemClock clock;
  fs::path top;
  std::vector<fs::path> mounted;
  int disks = 0;
  const std::string sandbox = random_uuid();
  std::unique_ptr<DirectoryStore> store;
};

void make_lower(const fs::path& lower) {
  for (const char* name : {"bin", "etc/deep/er", "data"}) fs::create_directories(lower / name);
  for (int i = 0; i < 30; ++i)
    std::ofstream(lower / "data" / ("f" + std::to_string(i))) << "lower " << i << std::string(i * 100, '.');
  for (int i = 0; i < 10; ++i) std::ofstream(lower / "etc/deep/er" / ("c" + std::to_string(i))) << i;
}

// One session's worth of changes through the overlay.
void change(const fs::path& at, std::mt19937& random) {
  const auto pick = [&](int below) { return std::to_string(random() % below); };
  const fs::path work = at / "workspace";
  fs::create_directories(work);
  for (int i = 0; i < 25; ++i) {
    const fs::path file = work / ("w" + pick(40));
    std::error_code ignored;
    switch (random() % 12) {
      case 0:
        fs::remove(at / "data" / ("f" + pick(30)), ignored);
        break;  // a whiteout
      case 1:
        if (fs::exists(at / "etc/deep")) {
          fs::remove_all(at / "etc/deep");
          fs::create_directories(at / "etc/deep/new" / pick(9));  // an opaque directory
        }
        break;
      case 2:
        fs::create_hard_link(file, work / ("h" + pick(1000)), ignored);
        break;
      case 3:
        fs::create_symlink("/etc/" + pick(100), work / ("l" + pick(1000)), ignored);
        break;
      case 4: {
        const int fd = open(file.c_str(), O_CREAT | O_WRONLY, 0644);
        EXPECT_EQ(pwrite(fd, "tail", 4, 3'000'000 + random() % 1000), 4);
        EXPECT_EQ(pwrite(fd, "head", 4, random() % 900'000), 4);
        close(fd);
        break;
      }
      case 5:
        fs::create_directories(work / "dir" / pick(6) / pick(6));
        break;
      case 6:
        (void)!lsetxattr(file.c_str(), "user.kept", "yes", 3, 0);
        break;
      case 7:
        chmod(file.c_str(), 0400 + random() % 0100);
        break;
      case 8:
        (void)!chown(file.c_str(), random() % 5000, random() % 5000);
        break;
      case 9:
        fs::rename(file, work / ("w" + pick(40)), ignored);
        break;
      case 10: {
        std::string bytes = random_bytes(random() % 200'000);
        std::ofstream(work / "n\xff\xfe bad\nname \xc3\xa9") << bytes;
        break;
      }
      default:
        std::ofstream(file, std::ios::app) << random_bytes(random() % 5000);
    }
  }
}

TEST_F(SnapshotTest, TwentyStopsAndStartsKeepEverything) {
  const uint32_t seed = std::random_device()();
  std::mt19937 random(seed);
  const fs::path lower = top / "lower";
  make_lower(lower);
  fs::path upper = new_disk();
  for (int cycle = 1; cycle <= 20; ++cycle) {
    const fs::path merged = mount_overlay(lower, upper);
    change(merged, random);
    const std::string before = describe(merged);
    umount2(merged.c_str(), 0);
    auto saved = store->save(upper, object(cycle));
    ASSERT_TRUE(saved.has_value()) << saved.error().message << " seed " << seed;
    EXPECT_EQ(saved->sha256, sha256_hex(text_of(top / "store" / object(cycle))));
    umount2(upper.parent_path().c_str(), 0);
    upper = new_disk();
    auto restored = store->restore(*saved, upper);
    ASSERT_TRUE(restored.has_value()) << restored.error().message << " seed " << seed;
    const fs::path again = mount_overlay(lower, upper);
    ASSERT_EQ(describe(again), before) << "cycle " << cycle << " seed " << seed;
    umount2(again.c_str(), 0);
  }
}

TEST_F(SnapshotTest, HolesStayHolesAndCostNothing) {
  const fs::path upper = new_disk();
  const int fd = open((upper / "huge").c_str(), O_CREAT | O_WRONLY, 0644);
  ASSERT_EQ(ftruncate(fd, int64_t{1} << 42), 0);
  for (int64_t at : {int64_t{1} << 20, int64_t{1} << 35, (int64_t{1} << 42) - 4})
    EXPECT_EQ(pwrite(fd, "data", 4, at), 4);
  close(fd);
  auto saved = store->save(upper, object(1));
  ASSERT_TRUE(saved.has_value()) << saved.error().message;
  EXPECT_LT(saved->size_bytes, 1 << 20);
  const fs::path fresh = new_disk();
  ASSERT_TRUE(store->restore(*saved, fresh).has_value());
  struct stat info{};
  ASSERT_EQ(stat((fresh / "huge").c_str(), &info), 0);
  EXPECT_EQ(info.st_size, int64_t{1} << 42);
  EXPECT_LT(info.st_blocks, 2048);
}

TEST_F(SnapshotTest, LeavesOutWhatNobodyMayBringBack) {
  const fs::path upper = new_disk();
  std::ofstream(upper / "suid") << "x";
  chmod((upper / "suid").c_str(), 06755);
  std::ofstream(upper / "cap") << "x";
  const char capability[20] = {1, 0, 0, 2, 0, 0x10};  // cap_net_admin, effective
  ASSERT_EQ(lsetxattr((upper / "cap").c_str(), "security.capability", capability, sizeof capability, 0), 0);
  ASSERT_EQ(lsetxattr((upper / "cap").c_str(), "user.overlay.opaque", "y", 1, 0), 0);
  ASSERT_EQ(lsetxattr((upper / "cap").c_str(), "user.kept", "y", 1, 0), 0);
  ASSERT_EQ(mknod((upper / "null").c_str(), S_IFCHR | 0666, makedev(1, 3)), 0);
  ASSERT_EQ(mknod((upper / "disk").c_str(), S_IFBLK | 0666, makedev(7, 0)), 0);
  ASSERT_EQ(mkfifo((upper / "pipe").c_str(), 0600), 0);
  auto saved = store->save(upper, object(1));
  ASSERT_TRUE(saved.has_value()) << saved.error().message;
  const fs::path fresh = new_disk();
  ASSERT_TRUE(store->restore(*saved, fresh).has_value());
  struct stat info{};
  ASSERT_EQ(stat((fresh / "suid").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u);
  EXPECT_FALSE(fs::exists(fresh / "null"));
  EXPECT_FALSE(fs::exists(fresh / "disk"));
  EXPECT_TRUE(fs::is_fifo(fresh / "pipe"));
  EXPECT_EQ(lgetxattr((fresh / "cap").c_str(), "security.capability", nullptr, 0), -1);
  EXPECT_EQ(lgetxattr((fresh / "cap").c_str(), "user.overlay.opaque", nullptr, 0), -1);
  EXPECT_EQ(lgetxattr((fresh / "cap").c_str(), "user.kept", nullptr, 0), 1);
}

// The limits of the files are for ever; a fault of the store is not.
TEST_F(SnapshotTest, WritesThatWereCutOffAreInNoSnapshot) {
  const fs::path upper = new_disk(), fresh = new_disk();
  const std::set<std::string> kept = {"mine", ".nodus-", ".nodus-12-1f3", ".nodus-1-XY-0",
                                      ".nodus-1-1f3-0.txt"};
  for (const auto& name : kept) std::ofstream(upper / name) << "x";
  for (const char* name : {".nodus-12-1f3-0", ".nodus-7-0-15"}) std::ofstream(upper / name) << "x";
  fs::create_hard_link(upper / "mine", upper / ".nodus-7-0-16");
  fs::create_symlink("/etc", upper / ".nodus-7-b-1");
  const auto saved = store->save(upper, object(1));
  ASSERT_TRUE(saved && store->restore(*saved, fresh));
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(fresh)) names.insert(entry.path().filename());
  EXPECT_EQ(names, kept);
}

TEST_F(SnapshotTest, SaysWhatCanNeverBeSaved) {
  const fs::path upper = top / "upper";
  const auto reason = [&] {
    const auto saved = store->save(upper, object(1));
    return saved ? std::string("saved") : saved.error().reason;
  };
  fs::create_directory(upper);
  EXPECT_EQ(reason(), "saved");
  std::ofstream(top / "store" / "blocked") << "";
  const auto blocked = store->save(upper, "blocked/" + sandbox + "/1/1/1");
  ASSERT_FALSE(blocked);
  EXPECT_NE(blocked.error().reason, kCannotBeSaved);

  fs::path deep = upper / "deep";
  for (size_t i = 0; i <= kMostDepth; ++i) deep /= "d";
  fs::create_directories(deep);
  EXPECT_EQ(reason(), kCannotBeSaved);
  fs::remove_all(upper / "deep");
  EXPECT_EQ(reason(), "saved");
  std::ofstream(upper / "file") << "";
  const std::string long_name(240, 'n');
  for (size_t kept = 0; kept <= kMostKept; kept += long_name.size())
    ASSERT_EQ(link((upper / "file").c_str(), (upper / (long_name + std::to_string(kept))).c_str()), 0);
  EXPECT_EQ(reason(), kCannotBeSaved);
}

TEST_F(SnapshotTest, AChangedObjectIsRefusedBeforeAnythingIsWritten) {
  const fs::path upper = new_disk();
  std::ofstream(upper / "file") << std::string(10'000, 'x');
  auto saved = store->save(upper, object(1));
  ASSERT_TRUE(saved.has_value());
  const fs::path path = top / "store" / object(1);
  const std::string good = text_of(path);
  const fs::path fresh = new_disk();
  const auto refused = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return !store->restore(*saved, fresh).has_value() && fs::is_empty(fresh);
  };
  fs::remove(fresh / "lost+found");
  for (size_t at = 0; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    EXPECT_TRUE(refused(bad)) << at;
  }
  EXPECT_TRUE(refused(good.substr(0, good.size() / 2)));
  EXPECT_TRUE(refused(good + good));
  fs::remove(path);
  EXPECT_FALSE(store->restore(*saved, fresh).has_value());
}

TEST_F(SnapshotTest, NamesOfObjectsAreChecked) {
  for (const char* name : {"a/b/1/2/3", "acme/0-1-2/10/20/30"}) EXPECT_TRUE(valid_object_name(name)) << name;
  for (const char* name :
       {"", "a", "a/b/1/2", "a/b/1/2/3/4", "../b/1/2/3", "a/../1/2/3", "/a/b/1/2/3", "a/b/1/2/", "a/b/1/2/x",
        "A/b/1/2/3", "a/b/1/2/-3", "a//1/2/3", "a/b/1/2/3\n", "a/./1/2/3"})
    EXPECT_FALSE(valid_object_name(name)) << name;
  EXPECT_FALSE(store->save(top, "../../x/1/2/3").has_value());
}

TEST_F(SnapshotTest, NoArchiveReachesOutside) {
  fs::create_directory(top / "canary");
  std::ofstream(top / "canary/file") << "untouched";
  const std::string before = describe(top / "canary");
  const fs::path disk = new_disk(24);
  int n = 0;
  const auto all = test::attacks((top / "canary").string());
  EXPECT_GE(all.size(), 50u);
  for (const auto& attack : all) {
    SCOPED_TRACE(attack.name);
    RestorePoint point;
    point.object = object(++n);
    const fs::path path = top / "store" / point.object;
    fs::create_directories(path.parent_path());
    {
      Forge forge(path);
      attack.make(forge);
    }
    const std::string bytes = text_of(path);
    point.sha256 = sha256_hex(bytes);
    point.size_bytes = static_cast<int64_t>(bytes.size());
    const fs::path into = disk / "a" / std::to_string(n);  // so that "../../canary" would be in top
    fs::create_directories(into);
    const auto restored = store->restore(point, into);
    EXPECT_EQ(restored.has_value(), !attack.refused) << (restored ? "" : restored.error().message);
    EXPECT_EQ(describe(top / "canary"), before);
    for (const auto& entry : fs::recursive_directory_iterator(into)) {
      struct stat info{};
      ASSERT_EQ(lstat(entry.path().c_str(), &info), 0);
      EXPECT_FALSE(S_ISBLK(info.st_mode));
      EXPECT_TRUE(!S_ISCHR(info.st_mode) || info.st_rdev == 0);
      EXPECT_TRUE(S_ISLNK(info.st_mode) || (info.st_mode & 06000) == 0);
      for (const char* name :
           {"security.capability", "security.ima", "user.overlay.redirect", "trusted.evil"})
        EXPECT_EQ(lgetxattr(entry.path().c_str(), name, nullptr, 0), -1) << name;
    }
    fs::remove_all(into);
  }
}

// The figure to compare: 49 MiB in 500 random files.
TEST_F(SnapshotTest, SavesAndRestoresManyFiles) {
  const fs::path upper = new_disk(512);
  for (int i = 0; i < 500; ++i)
    std::ofstream(upper / std::to_string(i)) << random_bytes(49 * 1024 * 1024 / 500);
  const auto begin = std::chrono::steady_clock::now();
  auto saved = store->save(upper, object(1));
  const auto middle = std::chrono::steady_clock::now();
  ASSERT_TRUE(saved.has_value());
  const fs::path fresh = new_disk(512);
  const auto restoring = std::chrono::steady_clock::now();
  ASSERT_TRUE(store->restore(*saved, fresh).has_value());
  const auto end = std::chrono::steady_clock::now();
  fs::remove(upper / "lost+found"), fs::remove(fresh / "lost+found");
  EXPECT_EQ(describe(fresh), describe(upper));
  const auto ms = [](auto from, auto to) { return std::chrono::duration_cast<Millis>(to - from).count(); };
  printf("49 MiB in 500 files: save and verify %ld ms, restore %ld ms\n", ms(begin, middle),
         ms(restoring, end));
}

}  // namespace
}  // namespace nodus::executor
