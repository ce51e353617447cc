// Commands of a slot whose helper is a socket of the test: what it does not read, what cannot be recorded.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <thread>

#include "libs/base/random.hpp"
#include "nodus/node/v1/channel.pb.h"
#include "services/executor/helper/protocol.hpp"
#include "services/executor/process/slot_processes.hpp"

namespace nodus::executor {
namespace {
namespace fs = std::filesystem;
using helper::Kind;

template <class Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(Millis(1));
  }
  return true;
}

// Reads only when it is told to.
class QuietHelper {
 public:
  explicit QuietHelper(const fs::path& path) : listening_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.native().copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(bind(listening_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listening_, 8), 0);
  }
  ~QuietHelper() {
    close(connection_);
    close(listening_);
  }
  void welcome() {
    connection_ = accept(listening_, nullptr, nullptr);
    ASSERT_GE(connection_, 0);
    const timeval patience{30, 0};
    setsockopt(connection_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const auto frame = helper::Writer(Kind::kWelcome).u8(helper::kVersion).text("i").u32(0).take();
    EXPECT_EQ(send(connection_, frame.data(), frame.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(frame.size()));
  }
  // The commands that it is asked to start; it reads until there are so many.
  std::set<std::string> read_spawns(size_t count) {
    std::set<std::string> uids;
    std::string chunk(1 << 20, '\0');
    while (uids.size() < count) {
      const ssize_t got = recv(connection_, chunk.data(), chunk.size(), 0);
      if (got <= 0) break;
      received_.append(chunk, 0, got);
      for (int64_t length; (length = helper::frame_length(received_)) > 0; received_.erase(0, 4 + length)) {
        helper::Reader body(std::string_view(received_).substr(4, length));
        if (static_cast<Kind>(body.u8()) == Kind::kSpawn) uids.insert(std::string(body.text()));
      }
    }
    return uids;
  }

 private:
  int listening_, connection_ = -1;
  std::string received_;
};

class SlotProcessesTest : public testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/nodus-unit-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    directory = path;
    outbox =
        std::make_unique<ReportOutbox>(OutboxOptions{directory / "outbox", "m1", 16, Millis(1), Millis(5)},
                                       [this](const std::string& body) { return take(body); });
    helper = std::make_unique<QuietHelper>(directory / "helper.sock");
    SlotView view;
    view.key = {SandboxUid(random_uuid()), 3};
    view.directory = directory / "slot";
    view.run_socket = directory / "helper.sock";
    slot = std::make_unique<SlotProcesses>(view, ProcessLimits{}, *outbox,
                                           [this](const std::string&) { ++changes; });
    std::thread welcoming([this] { helper->welcome(); });
    EXPECT_TRUE(slot->open(Seconds(30)));
    welcoming.join();
  }
  void TearDown() override {
    slot.reset();
    outbox.reset();
    fs::remove_all(directory);
  }
  Result<void> take(const std::string& body) {
    node::v1::ProcessReports message;
    EXPECT_TRUE(message.ParseFromString(body));
    std::lock_guard hold(mutex);
    for (const auto& report : message.reports()) reported[report.process_uid()] = report.reason();
    return {};
  }
  bool is_reported(const std::string& uid, const std::string& reason) {
    return eventually([&] {
      std::lock_guard hold(mutex);
      const auto found = reported.find(uid);
      return found != reported.end() && found->second == reason;
    });
  }
  std::string start(size_t stdin_bytes, Millis timeout = Seconds(3600)) {
    CommandRequest request;
    request.uid = random_uuid();
    request.name = "sb-hello-1";
    request.argv = {"cat"};
    request.stdin_bytes.assign(stdin_bytes, 'x');
    request.timeout = timeout;
    EXPECT_TRUE(slot->start(request));
    return request.uid;
  }

  fs::path directory;
  std::mutex mutex;
  std::map<std::string, std::string> reported;
  std::atomic<int> changes = 0;
  std::unique_ptr<ReportOutbox> outbox;
  std::unique_ptr<QuietHelper> helper;
  std::unique_ptr<SlotProcesses> slot;
};

// 8 MiB wait at most beside what is being written, so that the fifth finds no room for sure.
TEST_F(SlotProcessesTest, ACommandThatTheHelperHasNoRoomForWaitsOrEnds) {
  constexpr size_t kStdin = 3u << 20;
  std::set<std::string> uids;
  for (int i = 0; i < 5; ++i) uids.insert(start(kStdin));
  const auto late = start(kStdin, Millis(50));
  ASSERT_TRUE(eventually([&] { return slot->view(late)->ended; }));
  EXPECT_EQ(slot->view(late)->end.reason, "DeadlineExceeded");
  EXPECT_TRUE(is_reported(late, "DeadlineExceeded"));
  EXPECT_EQ(helper->read_spawns(uids.size()), uids);
  for (const auto& uid : uids) EXPECT_FALSE(slot->view(uid)->ended);
}

TEST_F(SlotProcessesTest, AClosedSlotEndsItsCommandsAlsoWhenNothingCanBeRecorded) {
  const auto uid = start(1);
  EXPECT_EQ(helper->read_spawns(1), std::set<std::string>{uid});
  fs::rename(directory / "outbox", directory / "away");
  const int before = changes;
  slot->close("ParentStopped");
  EXPECT_TRUE(slot->view(uid)->ended);
  EXPECT_EQ(slot->view(uid)->end.reason, "ParentStopped");
  EXPECT_GT(changes, before) << "whoever waits for the end is woken";
  fs::rename(directory / "away", directory / "outbox");
  EXPECT_TRUE(is_reported(uid, "ParentStopped"));
}

}  // namespace
}  // namespace nodus::executor
