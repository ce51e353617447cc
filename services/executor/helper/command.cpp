#include "services/executor/helper/command.hpp"

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace nodus::helper {
namespace {
// After the process ended, a child that still holds its pipes delays the end for so long.
constexpr uint64_t kGrace_ms = 200;
// A child that has not executed by then is held up by others of its user (SIGSTOP), or by the machine.
constexpr uint64_t kExecPatience_ms = 10'000;
constexpr size_t kChunkPrice = 64;
constexpr size_t kChunkSize = 16u << 10;
}  // namespace

uint64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

Command::Command(SpawnRequest request, const rlimit& files, bool too_many)
    : uid_(std::move(request.uid)), stdin_bytes_(std::move(request.stdin_bytes)), started_ms_(now_ms()) {
  Spawned spawned;
  if (too_many) {
    fault_ = {Stage::kLimit, EAGAIN};
  } else {
    request.stdin_bytes.assign(stdin_bytes_.empty() ? 0 : 1, ' ');  // only whether there is any
    fault_ = spawn(request, files, spawned);
  }
  pid_ = spawned.pid;
  status_ = spawned.status, in_ = spawned.in;
  out_[0] = spawned.out[0], out_[1] = spawned.out[1];
  if (pid_ < 0) reaped_ = exec_done_ = true;
  maybe_end();
}

Command::~Command() {
  for (int* fd : {&status_, &in_, &out_[0], &out_[1]}) close_end(*fd);
  kept_by_all -= kept_;
}

void Command::close_end(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

void Command::interests(std::vector<pollfd>& wanted) const {
  if (status_ >= 0) wanted.push_back({status_, POLLIN, 0});
  if (in_ >= 0) wanted.push_back({in_, POLLOUT, 0});
  if (has_room())
    for (int fd : out_)
      if (fd >= 0) wanted.push_back({fd, POLLIN, 0});
}

void Command::on_ready(const pollfd& ready) {
  if (ready.fd < 0 || !ready.revents) return;
  if (ready.fd == status_) read_status();
  if (ready.fd == in_) feed_stdin();
  for (int index : {0, 1})
    if (ready.fd == out_[index]) read_output(index);
  maybe_end();
}

void Command::read_status() {
  StartFault fault;
  const ssize_t got = read(status_, &fault, sizeof fault);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got == sizeof fault) fault_ = fault;
  exec_done_ = true;
  close_end(status_);
}

void Command::feed_stdin() {
  const ssize_t put = write(in_, stdin_bytes_.data() + stdin_at_, stdin_bytes_.size() - stdin_at_);
  if (put < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (put > 0) stdin_at_ += put;
  if (put > 0 && stdin_at_ < stdin_bytes_.size()) return;
  close_end(in_);
  stdin_bytes_ = {};
  stdin_at_ = 0;
}

void Command::read_output(int index) {
  char part[kMaxData];
  if (!has_room()) return;
  const size_t space = kKeptOutput - kept_;
  const ssize_t got = read(out_[index], part, std::min(sizeof part, space));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    owed_[index] = 0;
    close_end(out_[index]);
    return;
  }
  owed_[index] -= std::min<size_t>(owed_[index], got);
  keep(index, part, got);
}

void Command::keep(int index, const char* data, size_t size) {
  const auto stream = static_cast<uint8_t>(index + 1);
  Chunk* last = chunks_.empty() ? nullptr : &chunks_.back();
  if (last && last->stream == stream && last->data.size() + size <= kChunkSize) {
    last->data.append(data, size);
  } else {
    chunks_.push_back({stream, end_, std::string(data, size)});
    kept_ += kChunkPrice;
    kept_by_all += kChunkPrice;
  }
  kept_ += size;
  kept_by_all += size;
  end_ += size;
}

void Command::on_exit(int wait_status) {
  if (status_ >= 0) read_status();
  wait_status_ = wait_status;
  reaped_ = exec_done_ = true;
  exited_ms_ = now_ms();
  close_end(status_);
  close_end(in_);
  stdin_bytes_ = {};
  stdin_at_ = 0;
  for (int index : {0, 1}) {
    int pending = 0;
    if (out_[index] >= 0 && ioctl(out_[index], FIONREAD, &pending) == 0) owed_[index] = pending;
  }
  maybe_end();
}

void Command::maybe_end() {
  if (ended_ || !reaped_) return;
  const bool drained = out_[0] < 0 && out_[1] < 0;
  const bool waited = now_ms() >= exited_ms_ + kGrace_ms && owed_[0] == 0 && owed_[1] == 0;
  if (!drained && !waited) return;
  close_end(out_[0]);
  close_end(out_[1]);
  ended_ = true;
  ended_ms_ = now_ms();
}

int Command::patience_ms() const {
  const bool starting = running() && !exec_done_;
  if (!starting && (ended_ || !reaped_ || owed_[0] || owed_[1])) return -1;
  const uint64_t due = starting ? started_ms_ + kExecPatience_ms : exited_ms_ + kGrace_ms, now = now_ms();
  return due > now ? static_cast<int>(due - now) : 0;
}

void Command::on_time() {
  if (running() && !exec_done_ && now_ms() >= started_ms_ + kExecPatience_ms) {
    if (status_ >= 0) read_status();  // it may have executed just now
    if (!exec_done_) {
      fault_ = {Stage::kExec, ETIMEDOUT};
      exec_done_ = true;  // whatever it still says; its end follows
      close_end(status_);
      kill(pid_, SIGKILL);
    }
  }
  maybe_end();
}

void Command::attach(uint64_t offset) {
  acknowledge(offset);
  sent_ = std::clamp(offset, base_, end_);
  attached_ = true;
  end_sent_ = started_sent_ = false;
}

void Command::acknowledge(uint64_t offset) {
  offset = std::min(offset, end_);
  if (offset <= base_) return;
  base_ = offset;
  sent_ = std::max(sent_, base_);
  while (!chunks_.empty() && chunks_.front().offset + chunks_.front().data.size() <= base_) {
    const size_t freed = chunks_.front().data.size() + kChunkPrice;
    kept_ -= freed;
    kept_by_all -= freed;
    chunks_.pop_front();
  }
}

std::string Command::next_frame() {
  if (!attached_ || !exec_done_) return {};
  if (!started_sent_) {
    started_sent_ = true;
    if (fault_.stage == Stage::kNone)
      return Writer(Kind::kStarted).text(uid_).u32(pid_).u64(now_ms() - started_ms_).take();
  }
  if (sent_ < end_) {
    auto chunk = std::upper_bound(chunks_.begin(), chunks_.end(), sent_,
                                  [](uint64_t offset, const Chunk& c) { return offset < c.offset; });
    --chunk;  // the chunk that holds sent_
    const std::string_view data = std::string_view(chunk->data).substr(sent_ - chunk->offset, kMaxData);
    Writer frame(Kind::kOutput);
    frame.text(uid_).u8(chunk->stream).u64(sent_).text(data);
    sent_ += data.size();
    return frame.take();
  }
  if (!ended_ || end_sent_) return {};
  end_sent_ = true;
  How how = How::kExited;
  uint32_t value = 0;
  if (fault_.stage != Stage::kNone) {
    how = How::kStartFailed, value = fault_.error;
  } else if (WIFSIGNALED(wait_status_)) {
    how = How::kSignaled, value = WTERMSIG(wait_status_);
  } else {
    value = WEXITSTATUS(wait_status_);
  }
  return Writer(Kind::kEnded)
      .text(uid_)
      .u8(static_cast<uint8_t>(how))
      .u32(value)
      .u8(static_cast<uint8_t>(fault_.stage))
      .u64(end_)
      .u64(now_ms() - ended_ms_)
      .take();
}

}  // namespace nodus::helper
