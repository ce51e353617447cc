// The parts of the process side that need no Sandbox.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <cerrno>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <set>

#include "libs/base/random.hpp"
#include "nodus/node/v1/channel.pb.h"
#include "services/executor/helper/protocol.hpp"
#include "services/executor/helper/sha256.hpp"
#include "services/executor/process/command.hpp"
#include "services/executor/process/exec_request.hpp"
#include "services/executor/process/output_file.hpp"
#include "services/executor/process/report_outbox.hpp"

namespace nodus::executor {
namespace {
namespace fs = std::filesystem;

class ProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/nodus-unit-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    directory = path;
  }
  void TearDown() override { fs::remove_all(directory); }
  fs::path directory;
};

std::string read_all(const OutputFile& file, uint64_t offset) {
  OutputFile::Cursor cursor{offset, 0};
  OutputFrame frame;
  std::string all;
  while (file.read(cursor, frame).value_or(false)) {
    EXPECT_EQ(frame.offset, offset + all.size());
    all += frame.data;
  }
  return all;
}

TEST_F(ProcessTest, OutputIsReadBackFromAnyOffset) {
  auto file = *OutputFile::open(directory / "o");
  EXPECT_TRUE(file->append(1, 0, "hello ").has_value());
  EXPECT_TRUE(file->append(2, 6, "cruel ").has_value());
  EXPECT_TRUE(file->append(2, 6, "cruel ").has_value());    // a repeat
  EXPECT_TRUE(file->append(1, 10, "l world").has_value());  // one that overlaps
  const std::string all = "hello cruel world";
  for (uint64_t offset = 0; offset <= all.size(); ++offset)
    EXPECT_EQ(read_all(*file, offset), all.substr(offset));
  EXPECT_EQ(file->end(), all.size());
}

TEST_F(ProcessTest, ATornTailIsCut) {
  const auto path = directory / "o";
  {
    auto file = *OutputFile::open(path);
    ASSERT_TRUE(file->append(1, 0, "whole").has_value());
    ASSERT_TRUE(file->append(1, 5, "torn off").has_value());
  }
  const auto size = fs::file_size(path);
  for (uint64_t cut = 1; cut < 8 + 16; ++cut) {
    fs::resize_file(path, size - cut);
    auto file = *OutputFile::open(path);
    EXPECT_EQ(read_all(*file, 0), "whole");
    EXPECT_EQ(file->end(), 5u);
    ASSERT_TRUE(file->append(1, 5, "torn off").has_value());
  }
  std::ofstream(path, std::ios::app) << std::string(40, '\xff');
  EXPECT_EQ(read_all(**OutputFile::open(path), 0), "wholetorn off");
}

TEST_F(ProcessTest, RecordsComeBack) {
  CommandRecord record;
  record.uid = random_uuid();
  record.name = "sb-hello-12";
  record.timeout = Millis(1500);
  record.started_at = from_micros(123456789);
  record.deadline_boot = Micros(42);
  record.kill_reason = "DeadlineExceeded";
  record.ended = true;
  record.end = {"DeadlineExceeded", 137, "quoted \"so\"\n", from_micros(99)};
  auto back = decode_record(encode_record(record));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(encode_record(*back), encode_record(record));
  EXPECT_FALSE(decode_record("{}").has_value());
  EXPECT_FALSE(decode_record("{\"uid\":").has_value());
}

TEST_F(ProcessTest, SaysHowACommandEnded) {
  struct Case {
    helper::How how;
    uint32_t value;
    helper::Stage stage;
    const char* kill_reason;
    const char* reason;
    int exit_code;
  };
  using enum helper::How;
  using helper::Stage;
  for (const auto& c : std::initializer_list<Case>{
           {kExited, 0, Stage::kNone, "", "", 0},
           {kExited, 3, Stage::kNone, "", "NonZeroExit", 3},
           {kSignaled, SIGSEGV, Stage::kNone, "", "Signaled", 139},
           {kSignaled, SIGKILL, Stage::kNone, "", "Signaled", 137},
           {kSignaled, SIGKILL, Stage::kNone, "DeadlineExceeded", "DeadlineExceeded", 137},
           {kSignaled, SIGKILL, Stage::kNone, "ParentStopped", "ParentStopped", 137},
           {kExited, 0, Stage::kNone, "DeadlineExceeded", "", 0},  // it was quicker
           {kExited, 0, Stage::kNone, "OutputLimitExceeded", "OutputLimitExceeded", 137},
           {kSignaled, SIGKILL, Stage::kNone, "Cancelled", "Cancelled", 137},
           {kStartFailed, ENOENT, Stage::kExec, "", "StartFailed", 127},
           {kStartFailed, EACCES, Stage::kExec, "", "StartFailed", 126},
           {kStartFailed, ENOENT, Stage::kDirectory, "", "StartFailed", 126},
           {kStartFailed, EAGAIN, Stage::kFork, "DeadlineExceeded", "StartFailed", 126},
       }) {
    CommandRecord record;
    record.kill_reason = c.kill_reason;
    const auto end = judge_end(record, {c.how, c.value, c.stage, 0, Millis(0)}, from_micros(1));
    EXPECT_EQ(end.reason, c.reason);
    EXPECT_EQ(end.exit_code, c.exit_code);
  }
}

TEST_F(ProcessTest, TheHelpersDigestIsSha256) {
  std::string data;
  for (size_t size : {0, 1, 55, 56, 63, 64, 65, 127, 128, 1000, 70000}) {
    data.resize(size, 'q');
    helper::Sha256 hash;
    for (size_t at = 0; at < size; at += 77) hash.add(data.data() + at, std::min<size_t>(77, size - at));
    EXPECT_EQ(hash.hex(), sha256_hex(data)) << size;
  }
}

TEST_F(ProcessTest, FramesKeepTheirBounds) {
  const std::string frame = helper::Writer(helper::Kind::kAck).text("u").u64(7).take();
  EXPECT_EQ(helper::frame_length(frame), static_cast<int64_t>(frame.size() - 4));
  for (size_t cut = 0; cut < frame.size(); ++cut) {
    EXPECT_EQ(helper::frame_length(frame.substr(0, cut)), 0);
    helper::Reader body(std::string_view(frame).substr(5, cut > 5 ? cut - 5 : 0));
    body.text(), body.u64();
    EXPECT_FALSE(body.ok());
  }
  EXPECT_EQ(helper::frame_length(std::string("\xff\xff\xff\xff", 4)), -1);
  EXPECT_EQ(helper::frame_length(std::string(4, '\0')), -1);
  const std::string huge = helper::Writer(helper::Kind::kSpawn).u32(0xffffffff).take();
  helper::Reader body(std::string_view(huge).substr(5));
  EXPECT_TRUE(body.texts(1024).empty());
  EXPECT_FALSE(body.ok());
}

TEST_F(ProcessTest, ExecRequestsKeepTheirLimits) {
  const std::string uid = random_uuid();
  const auto parse = [&](const std::string& rest) {
    return parse_exec_request("{\"uid\":\"" + uid + "\",\"name\":\"sb-a-1\"," + rest + "}");
  };
  const auto list = [](size_t count, const std::string& each) {
    std::string text = "\"command\":[";
    for (size_t i = 0; i < count; ++i) text += (i ? ",\"" : "\"") + each + "\"";
    return text + "]";
  };
  const auto variables = [](size_t count) {
    std::string text = "\"env\":{";
    for (size_t i = 0; i < count; ++i) text += (i ? ",\"V" : "\"V") + std::to_string(i) + "\":\"x\"";
    return text + "},\"command\":[\"a\"]";
  };
  auto good = parse(
      R"("command":["sh","-c","x"],"env":{"A":"b=c"},"workingDir":"/w","timeoutMs":1500,"stdin":"aGk=")");
  ASSERT_TRUE(good.has_value()) << good.error().message;
  EXPECT_EQ(good->argv, (std::vector<std::string>{"sh", "-c", "x"}));
  EXPECT_EQ(good->env, (std::vector<std::string>{"A=b=c"}));
  EXPECT_EQ(good->timeout, Millis(1500));
  EXPECT_EQ(good->stdin_bytes, "hi");
  EXPECT_TRUE(parse(list(1024, "a")).has_value());
  EXPECT_FALSE(parse(list(1025, "a")).has_value());
  EXPECT_FALSE(parse(list(0, "a")).has_value());
  EXPECT_TRUE(parse(list(1, std::string(65535, 'a'))).has_value());
  EXPECT_FALSE(parse(list(1, std::string(65536, 'a'))).has_value());
  EXPECT_TRUE(parse(variables(512)).has_value());
  EXPECT_FALSE(parse(variables(513)).has_value());
  EXPECT_TRUE(parse(R"("command":["a"],"timeoutMs":86400000)").has_value());
  for (const char* bad : {R"("command":["a"],"timeoutMs":86400001)", R"("command":["a"],"timeoutMs":1.5)",
                          R"("command":["a\u0000"])", R"("command":"a")", R"("command":["a"],"env":{"":"x"})",
                          R"("command":["a"],"env":[])", R"("command":["a"],"workingDir":"w")",
                          R"("command":["a"],"stdin":"!")", R"("command":["a"],"shell":true)"})
    EXPECT_FALSE(parse(bad).has_value()) << bad;
}

// A lifecycle that fails, refuses one report for good, and is replaced by another outbox on the same files.
class Receiver {
 public:
  Result<void> take(const std::string& body) {
    node::v1::ProcessReports reports;
    EXPECT_TRUE(reports.ParseFromString(body));
    std::lock_guard hold(mutex);
    if (failures-- > 0) return fail(Code::kUnavailable, "ConnectionFailed", "No.");
    for (const auto& report : reports.reports())
      if (report.process_uid() == poison) return fail(Code::kBadRequest, "BadRequest", "Never.");
    for (const auto& report : reports.reports()) taken.insert(report.process_uid());
    changed.notify_all();
    return {};
  }
  bool wait(size_t count) {
    std::unique_lock hold(mutex);
    return changed.wait_for(hold, Seconds(30), [&] { return taken.size() >= count; });
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::multiset<std::string> taken;
  std::string poison;
  int failures = 0;
};

TEST_F(ProcessTest, ReportsArriveWhateverFails) {
  Receiver receiver;
  receiver.failures = 1'000'000;
  OutboxOptions options{directory / "outbox", "m1", 16, Millis(1), Millis(5)};
  const auto post = [&](const std::string& body) { return receiver.take(body); };
  std::set<std::string> uids;
  {
    ReportOutbox outbox(options, post);
    for (int i = 0; i < 50; ++i) {
      EndReport report;
      report.process_uid = *uids.insert(random_uuid()).first;
      ASSERT_TRUE(outbox.put(report).has_value());
    }
    EXPECT_EQ(outbox.waiting(), 50u);
  }
  {
    std::lock_guard hold(receiver.mutex);
    receiver.failures = 3;
    receiver.poison = *std::next(uids.begin(), 20);
  }
  ReportOutbox outbox(options, post);
  ASSERT_TRUE(receiver.wait(49));
  std::lock_guard hold(receiver.mutex);
  EXPECT_EQ(receiver.taken.count(receiver.poison), 0u);
  uids.erase(receiver.poison);
  for (const auto& uid : uids) EXPECT_EQ(receiver.taken.count(uid), 1u);
}

}  // namespace
}  // namespace nodus::executor
