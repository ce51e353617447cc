// The helper for real: every promise under a plain PID namespace, runc and runsc.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>

#include "libs/base/random.hpp"
#include "services/executor/process/helper_client.hpp"
#include "services/executor/process/output_file.hpp"
#include "tests/integration/executor_process/sandbox.hpp"

namespace nodus::executor {
namespace {
using helper::How;
using helper::Kind;
using helper::Writer;
using test::Runtime;
using test::Sandbox;

// Keeps what it hears, acknowledging at once; reattaches where it was after a reconnect.
class Recorder : public HelperListener {
 public:
  struct Heard {
    bool started = false;
    std::optional<HelperEnd> end;
    std::string out, err;
    uint64_t total = 0;
    bool gap = false;
  };
  void connected(const std::string&, const std::vector<HelperCommand>& commands) override {
    std::lock_guard hold(mutex);
    for (const auto& command : commands)
      client->send(Writer(Kind::kAttach).text(command.uid).u64(heard[command.uid].total).take());
  }
  void started(std::string_view uid, Millis) override {
    std::lock_guard hold(mutex);
    heard[std::string(uid)].started = true;
  }
  void output(std::string_view uid, int stream, uint64_t offset, std::string_view data) override {
    std::lock_guard hold(mutex);
    auto& to = heard[std::string(uid)];
    if (offset > to.total) to.gap = true;
    if (offset < to.total) data.remove_prefix(std::min<size_t>(data.size(), to.total - offset));
    (stream == 1 ? to.out : to.err) += data;
    to.total += data.size();
    if (acknowledge) client->send(Writer(Kind::kAck).text(uid).u64(to.total).take());
  }
  void ended(std::string_view uid, const HelperEnd& end) override {
    std::lock_guard hold(mutex);
    heard[std::string(uid)].end = end;
    changed.notify_all();
  }
  void taken(std::string_view, uint64_t) override {}
  Millis on_time() override { return Millis(1000); }
  Heard of(const std::string& uid) {
    std::lock_guard hold(mutex);
    return heard[uid];
  }
  Heard wait(const std::string& uid) {
    std::unique_lock hold(mutex);
    changed.wait_for(hold, Seconds(30), [&] { return heard[uid].end.has_value(); });
    return heard[uid];
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, Heard> heard;
  HelperClient* client = nullptr;
  std::atomic<bool> acknowledge = true;
};

class HelperTest : public testing::TestWithParam<Runtime> {
 protected:
  static void SetUpTestSuite() {}
  void SetUp() override {
    sandbox = std::make_unique<Sandbox>(GetParam());
    connect();
  }
  void connect() {
    client.reset();
    {
      std::lock_guard hold(recorder.mutex);  // it may be connected before it is known here
      client = std::make_unique<HelperClient>(sandbox->socket(), recorder);
      recorder.client = client.get();
    }
    ASSERT_TRUE(client->wait_connected(Seconds(10)));
  }
  std::string spawn(std::vector<std::string> argv, std::string cwd = "", std::string input = "") {
    const std::string uid = random_uuid();
    EXPECT_TRUE(client->offer(Writer(Kind::kSpawn)
                                  .text(uid)
                                  .u32(test::kUser)
                                  .u32(test::kUser)
                                  .texts(argv)
                                  .texts({"PATH=/bin:/usr/bin", "HOME=" + sandbox->inside()})
                                  .text(cwd.empty() ? sandbox->inside() : cwd)
                                  .text(input)
                                  .u8(0)
                                  .u32(0)
                                  .u32(0)
                                  .take()));
    return uid;
  }
  Recorder::Heard run(std::vector<std::string> argv, std::string cwd = "", std::string input = "") {
    auto heard = recorder.wait(spawn(std::move(argv), std::move(cwd), std::move(input)));
    EXPECT_TRUE(heard.end.has_value()) << "the command did not end";
    EXPECT_FALSE(heard.gap);
    if (!heard.end) heard.end.emplace();
    return heard;
  }
  Recorder::Heard sh(const std::string& script) { return run({"sh", "-c", script}); }

  std::unique_ptr<Sandbox> sandbox;
  Recorder recorder;
  std::unique_ptr<HelperClient> client;
};

TEST_P(HelperTest, RunsACommandAsTheUserWithoutPrivileges) {
  auto heard = sh("echo hi; echo no >&2; exit 3");
  EXPECT_EQ(heard.out, "hi\n");
  EXPECT_EQ(heard.err, "no\n");
  EXPECT_EQ(heard.end->how, How::kExited);
  EXPECT_EQ(heard.end->value, 3u);
  EXPECT_EQ(heard.end->output_end, 6u);
  EXPECT_EQ(sh("id -u; id -g; id -G").out, "1000\n1000\n1000\n");
  EXPECT_EQ(sh("grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | grep -v 0000000000000000").out, "");
  EXPECT_EQ(run({"ls", "/proc/self/fd"}).out.substr(0, 6), "0\n1\n2\n");
  EXPECT_NE(sh("kill -9 1; kill -9 -1; kill -STOP 1").end->how, How::kStartFailed);
  EXPECT_EQ(sh("pwd").out, sandbox->inside() + "\n");
  EXPECT_EQ(run({"cat"}, "", std::string(300'000, 'x')).out.size(), 300'000u);
}

TEST_P(HelperTest, IsOutOfTheCommandsReach) {
  if (GetParam() == Runtime::kPlain) return;  // there the file system is the host's
  EXPECT_EQ(sh("ls /.run; echo x > /.run/helper.sock").out, "");
  EXPECT_NE(sh("echo x > /.nodus/helper").end->value, 0u);
  EXPECT_NE(sh("echo x > /.nodus/other").end->value, 0u);
  EXPECT_EQ(sh("cat /proc/1/environ; ls /proc/1/fd").out, "");
  EXPECT_EQ(run({"cat", "/proc/self/oom_score_adj"}).end->value, 0u);
}

TEST_P(HelperTest, IsReachedByItsSocketOnly) {
  const auto link = sandbox->directory() / "link";
  std::filesystem::create_symlink(sandbox->socket(), link);
  EXPECT_EQ(connect_unix(link), -1);
  EXPECT_EQ(errno, ENOTSOCK);
  EXPECT_EQ(connect_unix(sandbox->directory() / "missing"), -1);
  EXPECT_EQ(errno, ENOENT);
}

// Whatever arrives at its socket, it goes on.
TEST_P(HelperTest, OutlivesNonsense) {
  for (int i = 0; i < 200; ++i) {
    int fd = -1;
    ASSERT_TRUE(test::eventually([&] { return (fd = connect_unix(sandbox->socket())) >= 0; }));
    std::string bytes = random_bytes(random_below(300) + 1);
    if (i % 4 == 1) bytes = std::string("\x03\0\0\0\x01\x01\x02", 7) + bytes;  // as a file request
    if (i % 4 == 2) bytes = std::string("\x03\0\0\0\x01\x01\x01", 7) + bytes;  // as nodusd
    if (i % 4 == 3)
      bytes = std::string("\x03\0\0\0\x01\x01\x01", 7) +
              Writer(static_cast<Kind>(random_below(80))).text(bytes).take();
    (void)!write(fd, bytes.data(), bytes.size());
    close(fd);
  }
  ASSERT_TRUE(test::eventually([&] { return client->count_live(Seconds(5)).has_value(); }));
  EXPECT_EQ(sh("echo still here").out, "still here\n");
}

TEST_P(HelperTest, SaysWhyAStartFailed) {
  auto gone = run({"no-such-program"});
  EXPECT_EQ(gone.end->how, How::kStartFailed);
  EXPECT_EQ(gone.end->value, static_cast<uint32_t>(ENOENT));
  EXPECT_EQ(gone.end->stage, helper::Stage::kExec);
  EXPECT_FALSE(gone.started);
  auto nowhere = run({"true"}, "/no/such/place");
  EXPECT_EQ(nowhere.end->stage, helper::Stage::kDirectory);
  EXPECT_EQ(nowhere.end->value, static_cast<uint32_t>(ENOENT));
  EXPECT_EQ(sh("ln -s /proc/self/fd away; ln -s /proc/self/root over; ln -s . here").end->value, 0u);
  for (const std::string& directory :
       {std::string("/proc"), std::string("/proc/self/fd/7"), std::string("/proc/self/root/proc"),
        std::string("/sys"), std::string("relative"), sandbox->inside() + "/away"})
    EXPECT_EQ(run({"true"}, directory).end->stage, helper::Stage::kDirectory) << directory;
  for (int fd = 3; fd < 21; ++fd)
    EXPECT_EQ(run({"true"}, "/proc/self/fd/" + std::to_string(fd)).end->stage, helper::Stage::kDirectory);
  EXPECT_EQ(run({"pwd"}, sandbox->inside() + "/here").out, sandbox->inside() + "\n");
  auto forbidden = run({sandbox->inside()});
  EXPECT_EQ(forbidden.end->value, static_cast<uint32_t>(EACCES));
}

TEST_P(HelperTest, EndsThoughABackgroundChildHoldsThePipes) {
  auto heard = sh("sleep 1000 & echo started");
  EXPECT_EQ(heard.out, "started\n");
  EXPECT_EQ(heard.end->value, 0u);
  EXPECT_EQ(*client->count_live(Seconds(5)), 1u);
  EXPECT_TRUE(test::eventually([&] { return client->kill_all(Seconds(5)).value_or(1) == 0; }));
}

TEST_P(HelperTest, KillsTheWholeTree) {
  const auto uid =
      spawn({"sh", "-c", "setsid sh -c 'sleep 1000 & sleep 1000' & (sleep 1000 & sleep 1000) & sleep 1000"});
  ASSERT_TRUE(test::eventually([&] { return client->count_live(Seconds(5)).value_or(0) >= 5; }));
  client->send(Writer(Kind::kKill).text(uid).u8(SIGKILL).take());
  auto heard = recorder.wait(uid);
  ASSERT_TRUE(heard.end.has_value());
  EXPECT_EQ(heard.end->how, How::kSignaled);
  EXPECT_EQ(heard.end->value, static_cast<uint32_t>(SIGKILL));
  EXPECT_TRUE(test::eventually([&] { return client->count_live(Seconds(5)).value_or(1) == 0; }));
}

// The client goes away in the middle, again and again: not one byte is lost or doubled.
TEST_P(HelperTest, LosesNothingWhenTheClientComesAndGoes) {
  constexpr size_t kSize = 10 << 20;
  const auto uid = spawn({"sh", "-c", "seq 1 2000000 | head -c 10485760"});
  for (int i = 0; i < 20 && !recorder.of(uid).end; ++i) {
    const auto before = recorder.of(uid).total;
    ASSERT_TRUE(test::eventually([&] { return recorder.of(uid).total > before || recorder.of(uid).end; }));
    connect();
  }
  auto heard = recorder.wait(uid);
  ASSERT_TRUE(heard.end.has_value());
  EXPECT_FALSE(heard.gap);
  ASSERT_EQ(heard.out.size(), kSize);
  std::string expected;
  for (int i = 1; expected.size() < kSize; ++i) expected += std::to_string(i) + "\n";
  EXPECT_EQ(sha256_hex(heard.out), sha256_hex(expected.substr(0, kSize)));
}

TEST_P(HelperTest, HoldsBackAWriterThatNobodyReads) {
  recorder.acknowledge = false;
  const auto uid = spawn({"sh", "-c", "yes | head -c 1000000; echo done >&2"});
  ASSERT_TRUE(test::eventually([&] { return recorder.of(uid).total >= 200'000; }));
  ASSERT_TRUE(client->count_live(Seconds(5)).has_value());
  EXPECT_LE(recorder.of(uid).total, helper::kKeptOutput);
  recorder.acknowledge = true;
  connect();
  client->send(Writer(Kind::kAck).text(uid).u64(recorder.of(uid).total).take());
  auto heard = recorder.wait(uid);
  EXPECT_EQ(heard.out.size(), 1'000'000u);
  EXPECT_EQ(heard.err, "done\n");
}

// The Sandbox's processes are at their limit. Under gVisor commands are still admitted, and what they fork is
// refused; under runc the helper's own forks count as well.
TEST_P(HelperTest, StaysAnswerableUnderAForkBomb) {
  if (GetParam() == Runtime::kPlain) return;  // there nothing limits it
  const auto bomb = spawn({"sh", "-c", "while true; do sleep 1000 & done"});
  ASSERT_TRUE(test::eventually([&] { return client->count_live(Seconds(5)).value_or(0) > 200; }));
  const auto admitted = run({"echo", "admitted"});
  // The bomb goes on meanwhile and is at its limit: 256 besides the commands (spec 000).
  EXPECT_LE(client->count_live(Seconds(5)).value_or(9'999), 258u);
  if (GetParam() == Runtime::kRunsc || admitted.end->how == How::kExited) {
    EXPECT_EQ(admitted.out, "admitted\n");
  } else {
    EXPECT_EQ(admitted.end->stage, helper::Stage::kFork);
    EXPECT_EQ(admitted.end->value, static_cast<uint32_t>(EAGAIN));
  }
  EXPECT_TRUE(test::eventually([&] { return client->kill_all(Seconds(5)).value_or(1) == 0; }));
  EXPECT_TRUE(recorder.wait(bomb).end.has_value());
  EXPECT_EQ(sh("echo back").out, "back\n");
}

// Between its change of user and its exec a command can be stopped by others of its user.
TEST_P(HelperTest, GoesOnThoughCommandsStopEachOther) {
  const auto stopper = spawn({"sh", "-c", "while :; do kill -s STOP -- -1; done 2>/dev/null"});
  ASSERT_TRUE(test::eventually([&] { return recorder.of(stopper).started; }));
  std::vector<std::string> uids;
  for (int i = 0; i < 100; ++i) uids.push_back(spawn({"true"}));
  for (const auto& uid : uids)
    ASSERT_TRUE(test::eventually([&] { return recorder.of(uid).started || recorder.of(uid).end; }));
  EXPECT_TRUE(client->count_live(Seconds(5)).has_value());
  EXPECT_TRUE(test::eventually([&] { return client->kill_all(Seconds(5)).value_or(1) == 0; }));
  EXPECT_EQ(recorder.wait(stopper).end.value_or(HelperEnd{}).value, static_cast<uint32_t>(SIGKILL));
  EXPECT_EQ(sh("echo back").out, "back\n");
}

// Until it executes a command may share the helper's memory: what others of its user do to it then is its own
// end only.
TEST_P(HelperTest, GoesOnThoughCommandsKillEachOther) {
  const auto killer = spawn({"sh", "-c", "while :; do kill -s SEGV -- -1; done 2>/dev/null"});
  ASSERT_TRUE(test::eventually([&] { return recorder.of(killer).started; }));
  std::vector<std::string> uids;
  for (int i = 0; i < 100; ++i) uids.push_back(spawn({"true"}));
  for (const auto& uid : uids) ASSERT_TRUE(recorder.wait(uid).end.has_value());
  client->send(Writer(Kind::kKill).text(killer).u8(SIGKILL).take());
  EXPECT_EQ(recorder.wait(killer).end.value_or(HelperEnd{}).value, static_cast<uint32_t>(SIGKILL));
  EXPECT_EQ(sh("echo back").out, "back\n");
  EXPECT_EQ(*client->count_live(Seconds(5)), 0u);
}

// Nor can they look into it or change it: who has changed its user may not be traced until it has executed.
TEST_P(HelperTest, NobodyEntersACommandThatHasNotExecuted) {
  if (GetParam() != Runtime::kRunsc)
    GTEST_SKIP() << "only under gVisor does it share memory; elsewhere it has a copy, which is nobody's";
  std::filesystem::copy_file(NODUS_TRACER, sandbox->workspace() / "tracer");
  const auto tracer = spawn({sandbox->inside() + "/tracer", "5"});
  ASSERT_TRUE(test::eventually([&] { return recorder.of(tracer).out.starts_with("ready"); }));
  std::vector<std::string> uids;
  while (!recorder.of(tracer).end && uids.size() < 20'000) {
    uids.push_back(spawn({"true"}));
    (void)recorder.wait(uids.back());
  }
  const auto heard = recorder.wait(tracer);
  ASSERT_TRUE(heard.end.has_value());
  EXPECT_EQ(heard.end->value, 0u) << heard.out;
  EXPECT_TRUE(heard.out.ends_with("entered 0\n")) << heard.out;
  EXPECT_EQ(sh("echo back").out, "back\n");
}

// What a program is started with does not depend on what was started before it in the same memory.
TEST_P(HelperTest, StartsAreIndependent) {
  std::vector<std::string> uids;
  for (int i = 0; i < 40; ++i)
    uids.push_back(spawn(i % 4 == 0   ? std::vector<std::string>{"no-such-program", std::to_string(i)}
                         : i % 4 == 1 ? std::vector<std::string>{"sh", "-c", "cat; exit 7"}
                                      : std::vector<std::string>{"echo", std::to_string(i)},
                         i % 8 == 2 ? "/no/such/place" : "", i % 4 == 1 ? std::to_string(i) : ""));
  for (int i = 0; i < 40; ++i) {
    const auto heard = recorder.wait(uids[i]);
    ASSERT_TRUE(heard.end.has_value()) << i;
    const bool fails = i % 4 == 0 || i % 8 == 2;
    EXPECT_EQ(heard.end->how == How::kStartFailed, fails) << i;
    if (i % 4 == 0) EXPECT_EQ(heard.end->value, static_cast<uint32_t>(ENOENT));
    if (i % 4 == 1) EXPECT_EQ(heard.out, std::to_string(i));
    if (i % 4 == 1) EXPECT_EQ(heard.end->value, 7u);
    if (i % 4 > 1 && !fails) EXPECT_EQ(heard.out, std::to_string(i) + "\n");
  }
}

// The user's processes elsewhere on the machine are not this Sandbox's: only gVisor's count is its own.
TEST_P(HelperTest, SetsNoLimitThatCountsTheWholeMachine) {
  if (GetParam() == Runtime::kRunsc) return;
  EXPECT_EQ(sh("grep -E '^Max processes +256 ' /proc/self/limits").out, "");
}

TEST_P(HelperTest, RunsManyAtOnce) {
  std::vector<std::string> uids;
  for (int i = 0; i < 60; ++i) uids.push_back(spawn({"sh", "-c", "echo " + std::to_string(i)}));
  for (int i = 0; i < 60; ++i) EXPECT_EQ(recorder.wait(uids[i]).out, std::to_string(i) + "\n");
}

// The figure to compare: a command through the helper, from asking to its end, beside the runtime's own exec.
TEST_P(HelperTest, FigureOfASpawn) {
  const auto p50_us = [](int times, const std::function<void()>& each) {
    std::vector<int64_t> took;
    for (int i = 0; i < times; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      each();
      took.push_back(std::chrono::duration_cast<Micros>(std::chrono::steady_clock::now() - begin).count());
    }
    std::sort(took.begin(), took.end());
    return took[took.size() / 2];
  };
  const auto helper_us = p50_us(60, [&] { EXPECT_EQ(sh("echo hi").out, "hi\n"); });
  if (GetParam() == Runtime::kPlain) {
    printf("sh -c 'echo hi' through the helper, plain: p50 %ld us\n", helper_us);
    return;
  }
  const auto exec_us = p50_us(15, [&] { EXPECT_EQ(sandbox->exec({"/bin/sh", "-c", "echo hi"}), 0); });
  printf("sh -c 'echo hi' through the helper, %s: p50 %ld us; %s exec: p50 %ld us\n",
         test::to_text(GetParam()), helper_us, test::to_text(GetParam()), exec_us);
}

INSTANTIATE_TEST_SUITE_P(Runtimes, HelperTest,
                         testing::Values(Runtime::kPlain, Runtime::kRunc, Runtime::kRunsc),
                         [](const auto& info) { return test::to_text(info.param); });

}  // namespace
}  // namespace nodus::executor
