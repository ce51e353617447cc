// Images as umoci writes them: what is refused, and what an image for life means.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "libs/linux/files.hpp"
#include "services/executor/adapters/linux/image_store.hpp"
#include "tests/integration/executor/sandbox.hpp"

namespace nodus::executor {
namespace {

namespace fs = std::filesystem;
using testing::on_machine;

class Images : public ::testing::Test {
 protected:
  Images() {
    std::string pattern = (fs::temp_directory_path() / "nodus-images-XXXXXX").native();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    fs::create_directories(directory_ / "images");
    store_ = std::make_unique<ImageStore>(directory_ / "images", directory_ / "unpacked");
  }
  ~Images() override { (void)linux::remove_tree(directory_); }

  // An image of one layer, made of `root` as the shell line builds it.
  std::string build(const std::string& root, const std::string& user = "1000:1000",
                    const std::string& working_dir = "/workspace") {
    const auto at = directory_.native();
    const auto built =
        on_machine("cd " + at + " && rm -rf root layout && mkdir -p root/etc && cd root && " + root +
                   " && cd .. && tar -C root -cf l.tar . && "
                   "umoci init --layout layout && umoci new --image layout:latest && umoci raw add-layer "
                   "--image layout:latest l.tar && "
                   "umoci config --image layout:latest --config.workingdir " +
                   working_dir + (user.empty() ? "" : " --config.user " + user) +
                   " && umoci gc --layout layout && rm -rf images/made && mv layout images/made");
    EXPECT_EQ(built.exit_code, 0) << built.out;
    for (const auto& [name, digest] : store_->catalog())
      if (name == "nodus/made") return digest;
    return "";
  }
  std::string refusal(const std::string& digest) {
    const auto image = store_->ensure("nodus/made", digest);
    return image ? "" : image.error().message;
  }

  fs::path directory_;
  std::unique_ptr<ImageStore> store_;
};

TEST_F(Images, AreUnpackedOnceAndKeptForLife) {
  const auto first = build("echo one > etc/version; echo 'agent:x:1000:1002::/:' > etc/passwd", "agent");
  const auto image = store_->ensure("nodus/made", first);
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->uid, 1000U);
  EXPECT_EQ(image->gid, 1002U);
  EXPECT_EQ(image->working_dir, "/workspace");
  EXPECT_EQ(*linux::read_file(image->rootfs / "etc/version"), "one\n");
  const auto second = build("echo two > etc/version");
  EXPECT_NE(first, second);
  EXPECT_EQ(*linux::read_file(store_->ensure("nodus/made", first)->rootfs / "etc/version"), "one\n");
  EXPECT_EQ(*linux::read_file(store_->ensure("nodus/made", second)->rootfs / "etc/version"), "two\n");
}

TEST_F(Images, WithoutAUserOfTheirOwnAreRefused) {
  EXPECT_NE(refusal(build("true", "")).find("names no user"), std::string::npos);
  EXPECT_NE(refusal(build("true", "0:0")).find("root"), std::string::npos);
  EXPECT_NE(refusal(build("true", "nobodyhere")).find("nobodyhere"), std::string::npos);
}

TEST_F(Images, ThatRedirectMountsAreRefused) {
  for (const std::string name : {"dev", "proc", "sys"})
    EXPECT_NE(refusal(build("ln -s /etc " + name)).find("/" + name + " is not a directory"),
              std::string::npos)
        << name;
  for (const std::string path : {"/proc/self/fd/7", "/sys", "/dev/../dev/shm"})
    EXPECT_NE(refusal(build("true", "1000", path)).find("working directory"), std::string::npos) << path;
}

TEST_F(Images, AreWhatTheirDigestSays) {
  const auto digest = build("true");
  EXPECT_NE(refusal("sha256:" + std::string(64, '1')).find("not in the catalog"), std::string::npos);
  EXPECT_NE(refusal("latest").find("not an image digest"), std::string::npos);
  EXPECT_NE(refusal("sha256:../../etc").find("not an image digest"), std::string::npos);
  EXPECT_FALSE(store_->ensure("nodus/..", digest));
  const auto blob = directory_ / "images" / "made" / "blobs" / "sha256" / digest.substr(7);
  ASSERT_TRUE(linux::write_file(blob, "{}"));
  EXPECT_NE(refusal(digest).find("damaged"), std::string::npos);
}

}  // namespace
}  // namespace nodus::executor
