// Decodes a chunked body, strictly: no chunk extensions, CRLF only, trailers bounded and dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nodus::http {

class ChunkDecoder {
 public:
  // Takes from the front of `input`, appends body bytes to `output` up to `most` of them. Returns how many
  // bytes of input were taken; what is left belongs to a later call or to the next request.
  size_t feed(std::string_view input, std::string& output, size_t most);
  bool done() const { return state_ == State::kDone; }
  bool malformed() const { return state_ == State::kMalformed; }

 private:
  enum class State { kSize, kSizeLf, kData, kDataCr, kDataLf, kTrailer, kTrailerLf, kDone, kMalformed };
  void step(char c);

  State state_ = State::kSize;
  uint64_t left_ = 0;    // of the chunk
  size_t digits_ = 0;    // of its size
  size_t line_ = 0;      // bytes of the trailer line
  size_t trailers_ = 0;  // bytes of all trailers
};

std::string chunk_header(size_t size);  // "1a\r\n"

}  // namespace nodus::http
