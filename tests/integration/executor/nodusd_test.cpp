// The program nodusd against a scheduler that is a small HTTP server here: registration, starts and stops
// over the node channel, kill -9, SIGTERM, purge, exit codes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>

#include "libs/base/random.hpp"
#include "libs/http/client.hpp"
#include "libs/http/server.hpp"
#include "libs/linux/files.hpp"
#include "nodus/node/v1/channel.pb.h"
#include "tests/integration/executor/sandbox.hpp"

namespace nodus::executor {
namespace {

namespace fs = std::filesystem;
namespace pb = nodus::node::v1;
using testing::Node;
using testing::nodus_home;
using testing::on_machine;

constexpr auto kPatience = std::chrono::seconds(40);

class Scheduler {
 public:
  Scheduler() : server_({.listen = "127.0.0.1:0", .workers = 32}) {
    server_.route({.method = "POST",
                   .pattern = "/node/v1/sync",
                   .name = "sync",
                   .handler = [this](const http::Request& request) { return answer(request); }});
    const auto started = server_.start();
    if (!started) throw std::runtime_error(started.error().message);
  }
  ~Scheduler() {
    set_hanging(false);
    server_.stop(Millis(1'000));
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }

  void want(std::vector<pb::DesiredSlot> slots) {
    const std::lock_guard lock(mutex_);
    desired_.set_version(desired_.version() + 1);
    desired_.set_complete(true);
    desired_.clear_slots();
    for (auto& slot : slots) *desired_.add_slots() = std::move(slot);
    changed_.notify_all();
  }
  void set_hanging(bool hanging) {
    const std::lock_guard lock(mutex_);
    hanging_ = hanging;
    changed_.notify_all();
  }
  // Waits for a report that satisfies `good`.
  template <class Predicate>
  std::optional<pb::SyncRequest> await(Predicate good) {
    std::unique_lock lock(mutex_);
    const bool came = changed_.wait_for(lock, kPatience, [&] { return last_ && good(*last_); });
    return came ? last_ : std::nullopt;
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    last_.reset();
  }
  std::optional<pb::SlotStatus> await_phase(const std::string& uid, pb::SlotPhase phase) {
    std::optional<pb::SlotStatus> found;
    await([&](const pb::SyncRequest& request) {
      for (const auto& slot : request.slots())
        if (slot.sandbox_uid() == uid && slot.phase() == phase) found = slot;
      return found.has_value();
    });
    return found;
  }

 private:
  http::Response answer(const http::Request& request) {
    pb::SyncRequest sync;
    if (!sync.ParseFromString(request.body)) return {.status = 400};
    if (request.headers.get("Authorization") != "Bearer token") return {.status = 401};
    std::unique_lock lock(mutex_);
    last_ = sync;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::seconds(20),
                      [&] { return !hanging_ || sync.seen_version() != desired_.version(); });
    desired_.set_poll_ms(20'000);
    return {.status = 200, .body = desired_.SerializeAsString()};
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool hanging_ = true;
  pb::SyncResponse desired_;
  std::optional<pb::SyncRequest> last_;
  http::Server server_;
};

class Nodusd : public ::testing::Test {
 protected:
  Nodusd() {
    std::string pattern = (fs::temp_directory_path() / "nodusd-XXXXXX").native();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    fs::create_directories(directory_ / "images");
    fs::create_symlink(nodus_home() / "images" / "busybox", directory_ / "images" / "busybox");
    configure("");
  }
  ~Nodusd() override {
    end(SIGTERM);
    EXPECT_EQ(run("purge"), 0);
    (void)linux::remove_tree(directory_);
  }

  void configure(const std::string& more) {
    std::ofstream(directory_ / "c.yaml")
        << "machine: m1\norg: dev\nprofile: dev\nhttp: {listen: \"127.0.0.1:0\"}\ndataPath: 127.0.0.1:9\n"
        << "scheduler: {url: \"" << scheduler_.url() << "\"}\nlifecycle: {url: \"" << scheduler_.url()
        << "\"}\n"
        << "state: {directory: " << state().native()
        << "}\nstore: {directory: " << (directory_ / "store").native()
        << "}\nimages: {directory: " << (directory_ / "images").native()
        << "}\nhelper: " NODUS_HELPER "\nnetwork: {pool: 10.220.0.0/20}\n"
        << (more.empty() ? "runtime: {directory: " + (nodus_home() / "tools" / "bin").native() + "}\n"
                         : more);
  }
  fs::path state() const { return directory_ / "n"; }

  void start(const std::string& failpoint = "") { pid_ = spawn({}, failpoint); }
  pid_t spawn(const std::vector<std::string>& words, const std::string& failpoint = "") {
    const std::string config = (directory_ / "c.yaml").native();
    std::vector<const char*> argv{NODUSD, "--config", config.c_str()};
    for (const auto& word : words) argv.push_back(word.c_str());
    argv.push_back(nullptr);
    const std::string path = std::string("PATH=") + ::getenv("PATH");
    const std::string point = "NODUS_FAILPOINT=" + failpoint;
    const char* env[] = {"NODUS_NODE_TOKEN=token", path.c_str(), failpoint.empty() ? nullptr : point.c_str(),
                         nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 2, (directory_ / "log").c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0600);
    pid_t pid = -1;
    EXPECT_EQ(::posix_spawn(&pid, NODUSD, &actions, nullptr, const_cast<char**>(argv.data()),
                            const_cast<char**>(env)),
              0);
    ::posix_spawn_file_actions_destroy(&actions);
    return pid;
  }
  static int wait(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int run(const std::string& word) {
    return wait(spawn(word.empty() ? std::vector<std::string>{} : std::vector{word}));
  }
  int end(int signal) {
    if (pid_ <= 0) return 0;
    ::kill(pid_, signal);
    return wait(std::exchange(pid_, -1));
  }
  std::string log() { return linux::read_file(directory_ / "log").value_or(""); }

  pb::DesiredSlot slot(const std::string& uid, int64_t epoch = 1) {
    pb::DesiredSlot slot;
    slot.set_sandbox_uid(uid);
    slot.set_start(1);
    slot.set_epoch(epoch);
    slot.set_desired(pb::DESIRED_RUN);
    slot.set_org("dev");
    slot.set_project("default");
    slot.set_name("box");
    slot.set_image("nodus/busybox");
    for (const auto& [image, digest] : ImageStore(directory_ / "images", directory_ / "x").catalog())
      if (image == slot.image()) slot.set_image_digest(digest);
    slot.mutable_shape()->set_cpu_milli(500);
    slot.mutable_shape()->set_memory_bytes(256 << 20);
    slot.mutable_shape()->set_disk_bytes(64 << 20);
    slot.set_egress_policy("Deny");
    slot.set_continuity_mode("Snapshotted");
    slot.set_working_dir("/workspace");
    return slot;
  }
  static pb::DesiredSlot stop(pb::DesiredSlot slot) {
    slot.set_desired(pb::DESIRED_STOP);
    slot.set_stop_reason(nodus::common::v1::STOP_REASON_USER);
    return slot;
  }
  std::string container_pid(const std::string& uid) {
    return linux::read_file(state() / "slots" / (uid + "-1") / "bundle" / "pid").value_or("none");
  }

  fs::path directory_;
  Scheduler scheduler_;
  pid_t pid_ = -1;
};

TEST_F(Nodusd, RegistersStartsAndStops) {
  start();
  const auto registered = scheduler_.await([](const auto&) { return true; });
  ASSERT_TRUE(registered) << log();
  EXPECT_EQ(registered->machine(), "m1");
  EXPECT_EQ(registered->org(), "dev");
  EXPECT_EQ(registered->runtime(), "runsc");
  EXPECT_EQ(registered->profile(), "dev");
  EXPECT_EQ(registered->data_path(), "127.0.0.1:9");
  EXPECT_GT(registered->capacity().cpu_milli(), 0);
  EXPECT_FALSE(registered->incarnation().empty());
  const auto uid = random_uuid();
  scheduler_.want({slot(uid)});
  ASSERT_TRUE(scheduler_.await_phase(uid, pb::SLOT_PHASE_RUNNING)) << log();
  scheduler_.want({stop(slot(uid))});
  const auto stopped = scheduler_.await_phase(uid, pb::SLOT_PHASE_STOPPED);
  ASSERT_TRUE(stopped) << log();
  EXPECT_EQ(stopped->restore_point().object(), "dev/" + uid + "/1/1/1");
  scheduler_.want({});
  EXPECT_TRUE(scheduler_.await([](const auto& request) { return request.slots().empty(); }));
  EXPECT_EQ(end(SIGTERM), 0) << log();
}

TEST_F(Nodusd, AdoptsAfterAKillAndLeavesSandboxesRunningWhenItEnds) {
  const auto uid = random_uuid();
  scheduler_.want({slot(uid)});
  start();
  ASSERT_TRUE(scheduler_.await_phase(uid, pb::SLOT_PHASE_RUNNING)) << log();
  const auto incarnation = scheduler_.await([](const auto&) { return true; })->incarnation();
  const auto pid = container_pid(uid);
  for (const int signal : {SIGKILL, SIGTERM}) {
    end(signal);
    EXPECT_EQ(::kill(std::stoi(pid), 0), 0) << "the Sandbox is gone";
    scheduler_.forget();
    start();
    ASSERT_TRUE(scheduler_.await_phase(uid, pb::SLOT_PHASE_RUNNING)) << log();
    EXPECT_EQ(container_pid(uid), pid);
    EXPECT_EQ(scheduler_.await([](const auto&) { return true; })->incarnation(), incarnation);
  }
  // Dropped while it was away.
  end(SIGKILL);
  scheduler_.want({});
  scheduler_.forget();
  start();
  EXPECT_TRUE(scheduler_.await([](const auto& request) { return request.slots().empty(); })) << log();
  EXPECT_EQ(on_machine("grep " + state().native() + "/slots /proc/self/mountinfo").out, "");
}

TEST_F(Nodusd, PurgeLeavesNothing) {
  const auto uid = random_uuid();
  scheduler_.want({slot(uid)});
  start();
  ASSERT_TRUE(scheduler_.await_phase(uid, pb::SLOT_PHASE_RUNNING)) << log();
  EXPECT_EQ(run("purge"), 2) << "it runs: its state is locked";
  end(SIGKILL);
  EXPECT_EQ(run("purge"), 0) << log();
  const auto label = Layout(state()).label;
  EXPECT_EQ(on_machine("ip link | grep " + label).out, "");
  EXPECT_EQ(on_machine("nft list tables | grep " + label).out, "");
  EXPECT_EQ(on_machine("grep " + state().native() + " /proc/self/mountinfo").out, "");
  EXPECT_EQ(on_machine("losetup -l | grep " + state().native()).out, "");
  EXPECT_EQ(on_machine("find /sys/fs/cgroup -name 'nodus-" + label + "*'").out, "");
  EXPECT_FALSE(fs::exists(state() / "slots"));
}

TEST_F(Nodusd, KilledAtEachStepItEndsInTheSameState) {
  struct {
    const char* point;
    bool while_starting;
  } const cases[] = {{"node.after_intent", true},    {"node.before_launch", true},
                     {"node.after_launch", true},    {"node.before_kill", false},
                     {"node.before_save", false},    {"node.after_save", false},
                     {"node.before_teardown", false}};
  for (const auto& [point, starts] : cases) {
    const auto uid = random_uuid();
    scheduler_.want({slot(uid)});
    start(std::string(point) + "=kill:1");
    if (!starts) {
      ASSERT_TRUE(scheduler_.await_phase(uid, pb::SLOT_PHASE_RUNNING)) << point << log();
      scheduler_.want({stop(slot(uid))});
    }
    EXPECT_EQ(wait(std::exchange(pid_, -1)), 128 + SIGKILL) << point;
    scheduler_.forget();
    start();
    if (starts) {
      ASSERT_TRUE(scheduler_.await_phase(uid, pb::SLOT_PHASE_RUNNING)) << point << log();
      scheduler_.want({stop(slot(uid))});
    }
    const auto stopped = scheduler_.await_phase(uid, pb::SLOT_PHASE_STOPPED);
    ASSERT_TRUE(stopped) << point << log();
    EXPECT_TRUE(stopped->has_restore_point()) << point;
    scheduler_.want({});
    ASSERT_TRUE(scheduler_.await([](const auto& request) { return request.slots().empty(); })) << point;
    EXPECT_EQ(
        on_machine("grep " + uid + " /proc/self/mountinfo; ip link | grep " + Layout(state()).label).out, "")
        << point;
    end(SIGTERM);
  }
}

TEST_F(Nodusd, SaysWhatIsMissing) {
  configure("runtime: {directory: /nowhere, kind: runsc}\n");
  EXPECT_EQ(run(""), 2);
  EXPECT_NE(log().find("This node does not register"), std::string::npos) << log();
  configure("");
  for (const std::string given : {"net_admin", "sys_admin", "setuid"}) {
    std::string name = "CAP_" + given;
    std::ranges::transform(name, name.begin(),
                           [](char c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; });
    const std::string output = (directory_ / "said").native();
    const auto said = on_machine("NODUS_NODE_TOKEN=token setpriv --bounding-set -" + given + " --inh-caps -" +
                                 given + " " NODUSD " --config " + (directory_ / "c.yaml").native() + " >" +
                                 output + " 2>&1; echo rc $?; grep -v '^{' " + output)
                          .out;
    EXPECT_EQ(said, "rc 2\nnodusd: This node does not register: nodusd runs without " + name + ".\n");
  }
  configure("runtime: {directory: /nowhere}\ncolour: red\n");
  EXPECT_EQ(run(""), 2);
  EXPECT_NE(log().find("colour"), std::string::npos) << log();
  configure("");
}

}  // namespace
}  // namespace nodus::executor
