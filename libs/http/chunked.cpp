#include "libs/http/chunked.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace nodus::http {

namespace {
constexpr size_t kMaxSizeDigits = 12;
constexpr size_t kMaxTrailerBytes = 4096;
}  // namespace

size_t ChunkDecoder::feed(std::string_view input, std::string& output, size_t most) {
  size_t taken = 0;
  size_t room = most;
  while (taken < input.size() && !done() && !malformed()) {
    if (state_ != State::kData) {
      step(input[taken++]);
      continue;
    }
    const size_t part = static_cast<size_t>(std::min<uint64_t>(left_, std::min(input.size() - taken, room)));
    if (part == 0) break;
    output.append(input.substr(taken, part));
    taken += part;
    room -= part;
    left_ -= part;
    if (left_ == 0) state_ = State::kDataCr;
  }
  return taken;
}

void ChunkDecoder::step(char c) {
  switch (state_) {
    case State::kSize: {
      int digit = -1;
      if (c >= '0' && c <= '9') digit = c - '0';
      if (c >= 'a' && c <= 'f') digit = c - 'a' + 10;
      if (c >= 'A' && c <= 'F') digit = c - 'A' + 10;
      if (digit >= 0 && ++digits_ <= kMaxSizeDigits) {
        left_ = left_ * 16 + static_cast<uint64_t>(digit);
      } else {
        state_ = c == '\r' && digits_ > 0 ? State::kSizeLf : State::kMalformed;
      }
      return;
    }
    case State::kSizeLf:
      digits_ = 0;
      state_ = c != '\n' ? State::kMalformed : left_ > 0 ? State::kData : State::kTrailer;
      return;
    case State::kDataCr:
      state_ = c == '\r' ? State::kDataLf : State::kMalformed;
      return;
    case State::kDataLf:
      state_ = c == '\n' ? State::kSize : State::kMalformed;
      return;
    case State::kTrailer:
      if (++trailers_ > kMaxTrailerBytes || c == '\n' || c == '\0') {
        state_ = State::kMalformed;
      } else if (c == '\r') {
        state_ = State::kTrailerLf;
      } else {
        ++line_;
      }
      return;
    case State::kTrailerLf:
      state_ = c != '\n' ? State::kMalformed : line_ == 0 ? State::kDone : State::kTrailer;
      line_ = 0;
      return;
    case State::kData:
    case State::kDone:
    case State::kMalformed:
      return;
  }
}

std::string chunk_header(size_t size) {
  return fmt::format("{:x}\r\n", size);
}

}  // namespace nodus::http
