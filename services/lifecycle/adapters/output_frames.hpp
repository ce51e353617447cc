// The frames of an output file: a header with a checksum, then the bytes. For directory_output_store.cpp.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <boost/crc.hpp>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace nodus::lifecycle::output_frames {

inline constexpr size_t kScanBytes = 256 * 1024;
inline constexpr uint32_t kMostFrame = 1u << 20;

struct Header {  // little-endian, as this machine
  uint64_t offset;
  uint32_t length;
  uint32_t stream;
  uint32_t checksum;  // CRC-32 of the header with 0 here, and the data
  uint32_t reserved;
};
static_assert(sizeof(Header) == 24);

inline uint32_t checksum(Header header, std::string_view data) {
  header.checksum = 0;
  boost::crc_32_type crc;
  crc.process_bytes(&header, sizeof header);
  crc.process_bytes(data.data(), data.size());
  return crc.checksum();
}

// Reads frames one after the other, in large reads.
class Scanner {
 public:
  Scanner(int fd, uint64_t position) : fd_(fd), position_(position) {}
  // False at the end, and at the first frame that is not whole and sound.
  bool next(Header& header, std::string& data) {
    if (!want(sizeof header)) return false;
    std::memcpy(&header, buffer_.data() + used_, sizeof header);
    const bool sound = header.length > 0 && header.length <= kMostFrame &&
                       (header.stream == 1 || header.stream == 2) && header.offset >= end_;
    if (!sound || !want(sizeof header + header.length)) return false;
    data.assign(buffer_, used_ + sizeof header, header.length);
    if (checksum(header, data) != header.checksum) return false;
    used_ += sizeof header + header.length;
    position_ += sizeof header + header.length;
    end_ = header.offset + header.length;
    return true;
  }
  uint64_t position() const { return position_; }  // of what follows the last frame

 private:
  bool want(size_t bytes) {
    if (buffer_.size() - used_ >= bytes) return true;
    buffer_.erase(0, used_);
    used_ = 0;
    while (buffer_.size() < bytes) {
      const size_t had = buffer_.size();
      buffer_.resize(had + kScanBytes);
      const ssize_t got = ::pread(fd_, buffer_.data() + had, kScanBytes, static_cast<off_t>(position_ + had));
      buffer_.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
      if (got <= 0) return false;
    }
    return true;
  }
  const int fd_;
  uint64_t position_;
  uint64_t end_ = 0;
  std::string buffer_;
  size_t used_ = 0;
};

}  // namespace nodus::lifecycle::output_frames
