// Paths inside a Sandbox: the first line is where a link points to, the rest is the path. Whatever they are,
// what is found lies inside the root and outside the directories that are refused. Needs root: it shuts
// itself in.
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "services/executor/helper/walk.hpp"
#include "tests/fuzz/expect.hpp"

using namespace nodus::helper;
namespace fs = std::filesystem;

static fs::path root;
static std::set<ino_t> ours;

static void clean_up() {
  std::error_code ignored;
  fs::remove_all(root, ignored);
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  char name[] = "/tmp/nodus-fuzz-XXXXXX";
  EXPECT_THAT_ALWAYS(mkdtemp(name));
  root = name;
  atexit(clean_up);
  for (const char* path : {"", "w", "w/d", "w/d/e"}) {
    fs::create_directory(root / path);
    struct stat info{};
    EXPECT_THAT_ALWAYS(stat((root / path).c_str(), &info) == 0);
    ours.insert(info.st_ino);
  }
  for (const char* path : {"proc/1", "sys/1", "dev/1", ".nodus/1", ".run/1"})
    fs::create_directories(root / path);
  fs::create_symlink("..", root / "w/up");
  fs::create_symlink("/", root / "w/root");
  fs::create_symlink("/proc/1", root / "w/p");
  return 0;
}

static void look(const std::string& target, const std::string& path) {
  EXPECT_THAT_ALWAYS(unshare(CLONE_FS) == 0 && chroot(root.c_str()) == 0 && chdir("/") == 0);  // this thread
  unlink("/w/l");
  if (!target.empty()) (void)!symlink(target.c_str(), "/w/l");
  for (const bool follow : {false, true}) {
    Place place;
    if (find_place(path, Missing::kRefuse, follow, place) != 0) continue;
    struct stat info{};
    EXPECT_THAT_ALWAYS(fstat(place.directory, &info) == 0 && ours.contains(info.st_ino));
    EXPECT_THAT_ALWAYS(place.name != ".." && place.name.find('/') == std::string::npos);
    struct stat top{};
    EXPECT_THAT_ALWAYS(stat("/", &top) == 0);
    if (top.st_ino == info.st_ino && !place.name.empty())
      EXPECT_THAT_ALWAYS(!refused_place("/" + place.name));
    close(place.directory);
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const size_t line = bytes.find('\n');
  const std::string target = line == bytes.npos ? "" : bytes.substr(0, line);
  const std::string path = line == bytes.npos ? bytes : bytes.substr(line + 1);
  std::thread(look, target.substr(0, target.find('\0')), path).join();
  return 0;
}
