// nodusd's end of the socket to the helper of one Sandbox. Owns a thread that connects, reconnects for as
// long as it lives, sends what was queued and hands on what it hears. What a lost connection swallowed is the
// owner's to repeat when `connected` is called: the helper keeps everything until it is acknowledged.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"
#include "services/executor/helper/protocol.hpp"

namespace nodus::executor {

struct HelperCommand {  // one that the helper knows
  std::string uid;
  uint64_t base = 0;  // the oldest output byte it still has
  uint64_t end = 0;
  uint64_t stdin_end = 0;  // bytes of stdin that it has
};

struct HelperEnd {
  helper::How how = helper::How::kExited;
  uint32_t value = 0;  // exit code, signal, or errno of a start that failed
  helper::Stage stage = helper::Stage::kNone;
  uint64_t output_end = 0;
  Millis age{0};  // how long ago
};

// Called on the client's thread, one at a time, without any lock of the client. They may call send().
class HelperListener {
 public:
  virtual ~HelperListener() = default;
  virtual void connected(const std::string& instance, const std::vector<HelperCommand>& commands) = 0;
  virtual void started(std::string_view uid, Millis age) = 0;
  virtual void output(std::string_view uid, int stream, uint64_t offset, std::string_view data) = 0;
  virtual void taken(std::string_view uid, uint64_t offset) = 0;  // stdin below it
  virtual void ended(std::string_view uid, const HelperEnd& end) = 0;
  virtual void caught_up() {}    // after the news that came together
  virtual Millis on_time() = 0;  // called when due; answers how long until the next time
};

class HelperClient {
 public:
  // `socket` need not exist yet. The listener outlives the client.
  HelperClient(std::filesystem::path socket, HelperListener& listener);
  ~HelperClient();

  bool wait_connected(Millis patience) const;
  // Queues a large frame; false when there is no connection or 8 MiB wait already: offer it again.
  bool offer(std::string_view frame);
  // Queues a small one; without a connection it is nothing. When 16 MiB wait the connection is given up, so
  // that `connected` repeats all: while there is a connection nothing is lost in silence.
  void send(std::string_view frame);
  // Live processes inside, other than the helper. kill_all ends them first; repeat until 0.
  Result<uint32_t> count_live(Millis patience);
  std::string live_name() const;  // of one that the last count found: "process 42 (node)"; empty: none
  Result<uint32_t> kill_all(Millis patience);
  void wake();  // on_time is called soon

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Connects to the Unix socket at `path`, however long the path is; never through a link in its place.
// Nonblocking, close-on-exec; -1 and errno.
int connect_unix(const std::filesystem::path& path);

}  // namespace nodus::executor
