// The frames of `exec`: one JSON object a line. Knows how much of the output it has, so that a stream that
// broke off goes on without a byte lost or doubled.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace nodus::cli {

struct End {
  std::string reason;
  int exit_code = 0;
  std::string message;
  std::string process;
};

class Frames {
 public:
  using Sink = std::function<void(bool is_stderr, std::string_view bytes)>;
  explicit Frames(Sink sink) : sink_(std::move(sink)) {}

  void begin();  // of a stream: what is left of a broken line is dropped
  // False: this is not a stream of frames.
  bool feed(std::string_view bytes);
  uint64_t offset() const { return offset_; }  // bytes of output delivered or known lost; resume with it
  uint64_t missing() const { return missing_; }
  const std::optional<End>& end() const { return end_; }

 private:
  bool take(std::string_view line);

  Sink sink_;
  std::string line_;
  uint64_t offset_ = 0;
  uint64_t missing_ = 0;  // no longer kept by the server
  std::optional<End> end_;
};

// What `nodus exec` exits with.
int exit_code_of(const End& end);

}  // namespace nodus::cli
