#include "services/executor/helper/command.hpp"

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "services/executor/helper/processes.hpp"
#include "services/executor/helper/terminal.hpp"

namespace nodus::helper {
namespace {
// After the process ended, a child that still holds its pipes delays the end for so long.
constexpr uint64_t kGrace_ms = 200;
// A child that has not executed by then is held up by others of its user (SIGSTOP), or by the machine.
constexpr uint64_t kExecPatience_ms = 10'000;
// The word that a command has executed waits so long for its first output or its end: most commands are
// short, and each word wakes nodusd while the command wants the processor.
constexpr uint64_t kTogether_ms = 25;
constexpr size_t kChunkPrice = 64;
constexpr size_t kChunkSize = 16u << 10;
uint64_t looked_at_ms = 0;  // when the clock was asked last; 0: not in this turn
}  // namespace

uint64_t now_ms() {
  if (looked_at_ms > 0) return looked_at_ms;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  looked_at_ms = static_cast<uint64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
  return looked_at_ms;
}

void forget_now() {
  looked_at_ms = 0;
}

Command::Command(SpawnRequest request, const SpawnLimits& limits, bool too_many)
    : uid_(std::move(request.uid)),
      terminal_(request.terminal),
      stdin_bytes_(std::move(request.stdin_bytes)),
      stdin_end_(stdin_bytes_.size()),
      stdin_open_(request.stdin_open),
      started_ms_(now_ms()) {
  Spawned spawned;
  if (too_many) {
    fault_ = {Stage::kLimit, EAGAIN};
  } else {
    request.stdin_bytes.assign(stdin_bytes_.empty() ? 0 : 1, ' ');  // only whether there is any
    shell_ = terminal_ && !request.argv.empty() && is_shell(request.argv);
    fault_ = spawn(std::move(request), limits, mark_, spawned);
  }
  pid_ = spawned.pid;
  launch_ = std::move(spawned.launch);
  status_ = spawned.status, in_ = spawned.in, slave_ = spawned.slave;
  out_[0] = spawned.out[0], out_[1] = spawned.out[1];
  if (terminal_ && !stdin_open_ && !stdin_bytes_.empty() && in_ >= 0) stdin_bytes_ += end_of_file(in_);
  if (pid_ < 0) reaped_ = exec_done_ = true;
  maybe_end();
}

Command::~Command() {
  for (int* fd : {&status_, &in_, &out_[0], &out_[1], &slave_}) close_end(*fd);
  kept_by_all -= kept_;
}

void Command::close_end(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

void Command::interests(std::vector<pollfd>& wanted) const {
  if (status_ >= 0) wanted.push_back({status_, POLLIN, 0});
  if (in_ >= 0 && (stdin_left() > 0 || (!stdin_open_ && !terminal_))) wanted.push_back({in_, POLLOUT, 0});
  if (has_room() && !hung_up_)
    for (int fd : out_)
      if (fd >= 0) wanted.push_back({fd, POLLIN, 0});
}

void Command::on_ready(const pollfd& ready) {
  if (ready.fd < 0 || !ready.revents) return;
  if (ready.fd == status_) read_status();
  if (ready.fd == in_) feed_stdin();
  for (int index : {0, 1})
    if (ready.fd == out_[index]) read_output(index, ready.revents & POLLHUP);
  maybe_end();
}

void Command::read_status() {
  StartFault fault;
  const ssize_t got = read(status_, &fault, sizeof fault);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got == sizeof fault) fault_ = fault;
  if (got == 0) launch_.reset();  // it has executed, and has memory of its own
  exec_done_ = true;
  executed_ms_ = now_ms();
  close_end(status_);
  close_end(slave_);
}

void Command::feed_stdin() {
  if (stdin_left() > 0) {
    const ssize_t put = write(in_, stdin_bytes_.data() + stdin_at_, stdin_left());
    if (put < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (put <= 0) return drop_stdin();
    stdin_at_ += put;
    if (stdin_left() > 0) return;
    stdin_bytes_.clear();
    stdin_at_ = 0;
  }
  if (!stdin_open_ && !terminal_) close_end(in_);
}

// Nobody reads it any more; what still comes counts as taken.
void Command::drop_stdin() {
  close_end(in_);
  stdin_bytes_ = {};
  stdin_at_ = 0;
}

bool Command::add_stdin(uint64_t offset, std::string_view data, bool last) {
  const uint64_t known = stdin_end_ - std::min(offset, stdin_end_);
  if (offset > stdin_end_ || stdin_left() + data.size() > known + kStdinWindow + 1) return false;
  data.remove_prefix(std::min<uint64_t>(known, data.size()));
  if (!stdin_open_) return true;  // a repeat
  stdin_end_ += data.size();
  stdin_open_ = !last;
  if (in_ < 0) return true;
  stdin_bytes_.erase(0, stdin_at_);
  stdin_at_ = 0;
  stdin_bytes_ += data;
  if (last && terminal_) stdin_bytes_ += end_of_file(in_);
  feed_stdin();
  return true;
}

void Command::resize(uint16_t rows, uint16_t columns) {
  if (terminal_ && out_[0] >= 0) resize_terminal(out_[0], rows, columns);
}

void Command::signal_group(int signal) {
  if (!running()) return;
  const char typed = terminal_ && in_ >= 0 ? character_of(in_, signal) : 0;
  if (typed && write(in_, &typed, 1) == 1) return;
  if (kill(-pid_, signal) < 0) kill(pid_, signal);  // it has not made its session yet
}

bool Command::at_prompt() const {
  return terminal_ && running() && exec_done_ && out_[0] >= 0 && is_prompt(out_[0], shell_);
}

void Command::read_output(int index, bool hung_up) {
  char part[kMaxData];
  if (!has_room()) return;
  const size_t space = kKeptOutput - kept_;
  const ssize_t got = read(out_[index], part, std::min(sizeof part, space));
  if (got < 0 && errno == EINTR) return;
  if (got < 0 && errno == EAGAIN && !(terminal_ && hung_up)) return;
  if (got <= 0) {
    owed_[index] = 0;
    if (terminal_ && !reaped_)
      hung_up_ = true;  // it may be opened again
    else
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
  launch_.reset();
  exited_ms_ = now_ms();
  hung_up_ = false;
  close_end(status_);
  close_end(slave_);
  drop_stdin();
  if (terminal_ && WIFSIGNALED(wait_status)) hang_up();
  for (int index : {0, 1}) {
    int pending = 0;
    if (out_[index] >= 0 && ioctl(out_[index], FIONREAD, &pending) == 0) owed_[index] = pending;
  }
  maybe_end();
}

void Command::maybe_end() {
  if (ended_ || !reaped_) return;
  const bool drained = out_[0] < 0 && out_[1] < 0;
  const auto waited = [&] { return owed_[0] == 0 && owed_[1] == 0 && now_ms() >= exited_ms_ + kGrace_ms; };
  if (!drained && !waited()) return;
  close_end(out_[0]);
  close_end(out_[1]);
  ended_ = true;
  ended_ms_ = now_ms();
}

// The kernel tells the foreground that its terminal is gone; gVisor does not.
void Command::hang_up() {
  for (const auto& entry : list_processes()) {
    if (!entry.live || entry.session != pid_) continue;
    kill(entry.pid, SIGHUP);
    kill(entry.pid, SIGCONT);
  }
}

// Nothing is lost by saying later that it has executed.
bool Command::start_can_wait() const {
  return !started_sent_ && running() && fault_.stage == Stage::kNone && sent_ == end_ && stdin_end_ == 0 &&
         now_ms() < executed_ms_ + kTogether_ms;
}

int Command::patience_ms() const {
  if (attached_ && exec_done_ && start_can_wait())
    return static_cast<int>(executed_ms_ + kTogether_ms - now_ms());
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
  taken_sent_ = 0;
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
  if (!attached_ || !exec_done_ || start_can_wait()) return {};
  if (!started_sent_) {
    started_sent_ = true;
    if (fault_.stage == Stage::kNone)
      return Writer(Kind::kStarted).text(uid_).u32(pid_).u64(now_ms() - started_ms_).take();
  }
  if (const uint64_t taken = stdin_end_ - std::min<uint64_t>(stdin_left(), stdin_end_); taken > taken_sent_) {
    taken_sent_ = taken;
    return Writer(Kind::kTaken).text(uid_).u64(taken).take();
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
