#include "tests/integration/executor_process/attacks.hpp"

namespace nodus::executor::test {
namespace {
std::string deep(int levels) {
  std::string path;
  for (int i = 0; i < levels; ++i) path += "d/";
  return path;
}

}  // namespace

std::vector<Attack> attacks(const std::string& canary) {
  const std::string out = "../../canary";
  return {
      {"dot dot file", [=](Forge& f) { f.directory(".").file(out + "/file"); }},
      {"dot dot inside", [=](Forge& f) { f.directory("a").file("a/../../../canary/file"); }},
      {"dot dot directory", [=](Forge& f) { f.directory("..").file("../x"); }},
      {"only dots", [](Forge& f) { f.file(".."); }},
      {"absolute", [=](Forge& f) { f.file(canary + "/file"); }},
      {"absolute directory", [=](Forge& f) { f.directory(canary + "/new"); }},
      {"double slash", [=](Forge& f) { f.file("/" + canary + "/file"); }},
      {"empty component", [](Forge& f) { f.directory("a").file("a//b"); }},
      {"dot component", [](Forge& f) { f.directory("a").file("a/./b"); }},
      {"link then file", [=](Forge& f) { f.link("l", canary).file("l/file"); }},
      {"link then same name", [=](Forge& f) { f.link("l", canary + "/file").file("l"); }},
      {"relative link then file", [=](Forge& f) { f.link("l", out).file("l/file"); }},
      {"link then directory", [=](Forge& f) { f.link("l", canary).directory("l").file("l/file"); }},
      {"link chain", [=](Forge& f) { f.link("a", "b").link("b", canary).file("a/file"); }},
      {"link to own root", [](Forge& f) { f.link("l", ".").file("l/x"); }},
      {"link to proc", [](Forge& f) { f.link("l", "/proc/self/root").file("l/tmp/x"); }},
      {"root is a link", [=](Forge& f) { f.link(".", canary).file("file"); }},
      {"root is a file", [](Forge& f) { f.file("."); }},
      {"root twice", [](Forge& f) { f.directory(".").directory("."); }},
      {"hard link out", [=](Forge& f) { f.hard("h", out + "/file"); }},
      {"hard link absolute", [=](Forge& f) { f.hard("h", canary + "/file"); }},
      {"hard link through link", [=](Forge& f) { f.link("l", canary).hard("h", "l/file"); }},
      {"hard link to link", [=](Forge& f) { f.link("l", canary + "/file").hard("h", "l"); }},
      {"hard link with data", [=](Forge& f) { f.link("l", canary + "/file").hard("h", "l", "evil"); }},
      {"hard link to directory", [](Forge& f) { f.directory("d").hard("h", "d"); }},
      {"hard link to nothing", [](Forge& f) { f.hard("h", "nothing"); }},
      {"hard link to itself", [](Forge& f) { f.hard("h", "h"); }},
      {"hard link to root", [](Forge& f) { f.hard("h", "."); }},
      {"same file twice", [](Forge& f) { f.file("a").file("a"); }},
      {"directory over file", [](Forge& f) { f.file("a").directory("a"); }},
      {"file under file", [](Forge& f) { f.file("a").file("a/b"); }},
      {"parent missing", [](Forge& f) { f.file("no/such/parent"); }},
      {"null device", [](Forge& f) { f.node("n", S_IFCHR, 1, 3); }},
      {"memory device", [](Forge& f) { f.node("m", S_IFCHR, 1, 1); }},
      {"block device", [](Forge& f) { f.node("b", S_IFBLK, 7, 0); }},
      {"block device 0,0", [](Forge& f) { f.node("b", S_IFBLK, 0, 0); }},
      {"too deep",
       [](Forge& f) {
         for (int i = 1; i <= 257; ++i) f.directory(deep(i));
       }},
      {"long name", [](Forge& f) { f.file(std::string(256, 'n')); }},
      {"long path", [](Forge& f) { f.file(std::string(5000, 'p')); }},
      {"empty link", [](Forge& f) { f.link("l", ""); }},
      {"more data than the disk",
       [](Forge& f) {
         for (int i = 0; i < 40; ++i) f.file("z" + std::to_string(i), std::string(1 << 20, '\0'));
       }},
      {"extents outside", [](Forge& f) { f.attribute("x", "nodus.extents", "4 9223372036854775807 4"); }},
      {"extents overlap", [](Forge& f) { f.attribute("x", "nodus.extents", "4 0 3 2 1"); }},
      {"extents negative", [](Forge& f) { f.attribute("x", "nodus.extents", "4 -1 4"); }},
      {"extents that lie", [](Forge& f) { f.attribute("x", "nodus.extents", "400 0 400"); }},
      {"extents are no numbers", [](Forge& f) { f.attribute("x", "nodus.extents", "4 0 4 "); }},
      {"set-id file", [](Forge& f) { f.entry("s", S_IFREG, 06755), f.put("x"); }, false},
      {"set-id directory", [](Forge& f) { f.entry("s", S_IFDIR, 06755), f.put(); }, false},
      {"capability", [](Forge& f) { f.attribute("c", "security.capability", std::string(20, '\1')); }, false},
      {"ima", [](Forge& f) { f.attribute("c", "security.ima", "x"); }, false},
      {"user overlay", [](Forge& f) { f.attribute("c", "user.overlay.redirect", "/etc"); }, false},
      {"other trusted", [](Forge& f) { f.attribute("c", "trusted.evil", "x"); }, false},
      {"whiteout", [](Forge& f) { f.node("w", S_IFCHR, 0, 0); }, false},
  };
}

}  // namespace nodus::executor::test
