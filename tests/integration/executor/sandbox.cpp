#include "tests/integration/executor/sandbox.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "libs/base/random.hpp"
#include "libs/linux/files.hpp"
#include "libs/linux/subprocess.hpp"
#include "libs/linux/unique_fd.hpp"

namespace nodus::executor::testing {
namespace fs = std::filesystem;

fs::path nodus_home() {
  const char* home = std::getenv("NODUS_HOME");
  return home != nullptr ? fs::path(home) : fs::path(NODUS_SOURCE) / ".nodus";
}

Node::Node(const std::string& runtime, std::string pool, fs::path helper)
    : runtime_(runtime), pool_(std::move(pool)), helper_(std::move(helper)) {
  if (::geteuid() != 0) throw std::runtime_error("This test makes containers: run it as root.");
  std::string pattern = (fs::temp_directory_path() / "nodus-test-XXXXXX").native();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  directory_ = pattern;
  fs::create_directories(directory_ / "images");
  if (!fs::exists(nodus_home() / "images" / "busybox" / "index.json"))
    throw std::runtime_error("The image nodus/busybox is missing: run images/busybox/build.");
  fs::create_symlink(nodus_home() / "images" / "busybox", directory_ / "images" / "busybox");
  reopen();
}

void Node::reopen() {
  host_.reset();
  auto host =
      LinuxHost::make({.state = state(),
                       .images = directory_ / "images",
                       .helper = helper_,
                       .pool = pool_,
                       .resolvers = {"192.0.2.53"}},
                      [this](const fs::path& root) {
                        const auto binary = (nodus_home() / "tools" / "bin" / runtime_).native();
                        return runtime_ == "runsc" ? make_runsc(binary, root) : make_runc(binary, root);
                      });
  if (!host) throw std::runtime_error(host.error().message);
  host_ = std::move(*host);
  store_ = std::make_unique<SlotStore>(state());
  if (auto version = host_->runtime().version(); !version)
    throw std::runtime_error(runtime_ + " is missing: run dev/install. " + version.error().message);
}

Node::~Node() {
  if (host_)
    if (auto purged = host_->purge(); !purged)
      std::fprintf(stderr, "purge: %s\n", purged.error().message.c_str());
  host_.reset();
  (void)linux::remove_tree(directory_);
}

Order Node::order(const std::string& name, int64_t epoch) {
  Order order{.key = {SandboxUid(random_uuid()), epoch}, .start = 1, .org = "dev", .project = "default"};
  order.name = name;
  order.image = "nodus/busybox";
  for (const auto& [image, digest] : ImageStore(directory_ / "images", state() / "images").catalog())
    if (image == order.image) order.image_digest = digest;
  order.shape = {.cpu_milli = 1000, .memory_bytes = 256LL << 20, .disk_bytes = 64LL << 20};
  order.working_dir = "/workspace";
  return order;
}

SlotRecord Node::start(const Order& order) {
  std::vector<int> used;
  for (const auto& [name, index] : indices_) used.push_back(index);
  SlotRecord record{.order = order, .network_index = *host_->take_network_index(used)};
  indices_[order.key.text()] = record.network_index;
  auto created = store_->create(record);
  if (created && indices_.size() == 1) created = host_->sweep({record});
  auto upper = host_->prepare(record);
  if (!upper) throw std::runtime_error(upper.error().message);
  if (auto launched = host_->launch(record); !launched) throw std::runtime_error(launched.error().message);
  return record;
}

static linux::UniqueFd connect_to(const fs::path& socket, Millis deadline) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  do {
    linux::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, socket.c_str(), sizeof address.sun_path - 1);
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
    std::this_thread::sleep_for(Millis(5));
  } while (std::chrono::steady_clock::now() < until);
  return {};
}

Answer Node::exec(const SlotKey& key, const std::string& line, Millis deadline) {
  Answer answer;
  const auto fd = connect_to(host_->layout().run(key) / "helper.sock", Millis(10'000));
  if (!fd) {
    answer.out =
        "no answer from PID 1; console: " + linux::read_file(host_->layout().console(key)).value_or("");
    return answer;
  }
  const std::string text = line + "\n";
  if (::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) return answer;
  const auto until = std::chrono::steady_clock::now() + deadline;
  char buffer[65536];
  for (;;) {
    const auto left = std::chrono::duration_cast<Millis>(until - std::chrono::steady_clock::now()).count();
    pollfd ready{fd.get(), POLLIN, 0};
    if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left)) <= 0) {
      answer.out += " (timed out)";
      return answer;
    }
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got <= 0) return answer;
    answer.out.append(buffer, static_cast<size_t>(got));
    const size_t end = answer.out.rfind("\n#END ");
    if (end == std::string::npos || answer.out.back() != '\n') continue;
    answer.exit_code = std::atoi(answer.out.c_str() + end + 6);
    answer.out.resize(end);
    return answer;
  }
}

Answer on_machine(const std::string& line) {
  auto outcome = linux::run({.argv = {"sh", "-c", line}});
  if (!outcome) return {-1, outcome.error().message};
  return {outcome->exit_code, outcome->out + outcome->err};
}

}  // namespace nodus::executor::testing
