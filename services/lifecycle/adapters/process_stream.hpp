// A command's output and end, from wherever they are: the node while it has them, the output store when it
// does not. A connection that breaks on the way to the node is made again from the same offset, so that
// whoever listens hears every byte once and the end last, whatever restarts meanwhile.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "services/lifecycle/adapters/api.hpp"
#include "services/lifecycle/adapters/render.hpp"

namespace nodus::lifecycle {

// Where output goes. False: nobody listens any more.
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  virtual boost::asio::awaitable<bool> begun() = 0;  // the node has it: there will be an end
  virtual boost::asio::awaitable<bool> frames(std::span<const OutputFrame> frames) = 0;
  virtual boost::asio::awaitable<bool> quiet() = 0;  // nothing came for Api::options.keep_alive
};

struct StreamOf {
  Process process;
  std::optional<Sandbox> sandbox;  // as it was just now, with `process`; else they are looked up
  uint64_t offset = 0;
  // The command for its node, which starts it if it has not; empty: it is only listened to.
  std::string start;
  bool follow = true;  // until its end; else what there is now
};

struct Streamed {
  std::optional<StreamEnd> end;           // the command's, when all of its output went to the sink
  std::optional<http::Response> refused;  // the node did not start it; nothing went to the sink
  bool unreached = false;                 // with refused: the node surely has not got it by this request
};

boost::asio::awaitable<Streamed> stream_process(Api& api, http::Exchange& exchange, StreamOf what,
                                                OutputSink& sink);

// The command as the node is told of it. `env`: the Sandbox's; the command's own wins.
std::string node_command(const Process& process, boost::json::object body,
                         const std::map<std::string, std::string>& env = {});

}  // namespace nodus::lifecycle
