#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>

#include "libs/linux/files.hpp"

namespace nodus::executor {
namespace {

TEST(FilesInRoot, AreRegularAndInside) {
  std::string pattern = (std::filesystem::temp_directory_path() / "nodus-files-XXXXXX").native();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const std::filesystem::path root = pattern;
  ASSERT_TRUE(linux::write_file(root / "file", "text"));
  ASSERT_EQ(::mkfifo((root / "fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("/file", root / "link");
  std::filesystem::create_symlink("/etc/passwd", root / "out");
  const linux::UniqueFd fd(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_EQ(linux::read_file_in_root(fd.get(), "/file").value_or(""), "text");
  EXPECT_EQ(linux::read_file_in_root(fd.get(), "/link").value_or(""), "text");
  EXPECT_FALSE(linux::read_file_in_root(fd.get(), "/fifo"));
  EXPECT_FALSE(linux::open_file_in_root(fd.get(), "/fifo", O_WRONLY));
  EXPECT_FALSE(linux::read_file_in_root(fd.get(), "/out"));
  (void)linux::remove_tree(root);
}

}  // namespace
}  // namespace nodus::executor
