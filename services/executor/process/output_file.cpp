#include "services/executor/process/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "services/executor/helper/protocol.hpp"

namespace nodus::executor {
namespace {
struct Header {  // as in the file; read only by the machine that wrote it
  uint64_t offset;
  uint32_t length;
  uint32_t stream;
};
static_assert(sizeof(Header) == 16);

std::unexpected<Error> io_fault(const char* what) {
  return fail(Code::kInternal, "OutputFileFailed", std::string(what) + ": " + std::strerror(errno) + ".");
}
}  // namespace

Result<std::shared_ptr<OutputFile>> OutputFile::open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return io_fault("Cannot open an output file");
  std::shared_ptr<OutputFile> file(new OutputFile(fd));
  if (auto recovered = file->recover(); !recovered) return std::unexpected(recovered.error());
  return file;
}

OutputFile::~OutputFile() {
  close(fd_);
}

Result<void> OutputFile::recover() {
  struct stat info{};
  if (fstat(fd_, &info) < 0) return io_fault("Cannot read an output file");
  const auto total = static_cast<uint64_t>(info.st_size);
  uint64_t at = 0, end = 0;
  for (Header header{}; at + sizeof header <= total;) {
    if (pread(fd_, &header, sizeof header, static_cast<off_t>(at)) != sizeof header) break;
    const bool sound = header.offset >= end && header.length > 0 && header.length <= helper::kMaxData &&
                       (header.stream == 1 || header.stream == 2);
    if (!sound || at + sizeof header + header.length > total) break;
    at += sizeof header + header.length;
    end = header.offset + header.length;
    bytes_[header.stream - 1] += header.length;
  }
  if (at < total && ftruncate(fd_, static_cast<off_t>(at)) < 0) return io_fault("Cannot mend an output file");
  end_ = end;
  size_ = at;
  return {};
}

Result<void> OutputFile::append(int stream, uint64_t offset, std::string_view data) {
  const uint64_t end = end_;
  if (offset < end) {
    const uint64_t known = end - offset;
    if (known >= data.size()) return {};
    data.remove_prefix(known);
    offset = end;
  }
  if (data.empty()) return {};
  Header header{offset, static_cast<uint32_t>(data.size()), static_cast<uint32_t>(stream)};
  const iovec parts[2] = {{&header, sizeof header}, {const_cast<char*>(data.data()), data.size()}};
  const uint64_t size = size_;
  const ssize_t put = pwritev(fd_, parts, 2, static_cast<off_t>(size));
  if (put != static_cast<ssize_t>(sizeof header + data.size()))
    return io_fault("Cannot write an output file");
  size_.store(size + put, std::memory_order_release);
  bytes_[stream - 1] += data.size();
  end_.store(offset + data.size(), std::memory_order_release);
  return {};
}

Result<bool> OutputFile::read(Cursor& cursor, OutputFrame& frame) const {
  const uint64_t size = file_size();
  for (Header header{}; cursor.position < size;) {
    if (pread(fd_, &header, sizeof header, static_cast<off_t>(cursor.position)) != sizeof header)
      return io_fault("Cannot read an output file");
    const uint64_t data_at = cursor.position + sizeof header;
    const uint64_t frame_end = header.offset + header.length;
    if (frame_end <= cursor.offset) {
      cursor.position = data_at + header.length;
      continue;
    }
    const uint64_t skip = cursor.offset > header.offset ? cursor.offset - header.offset : 0;
    frame.stream = static_cast<int>(header.stream);
    frame.offset = header.offset + skip;
    frame.data.resize(header.length - skip);
    if (pread(fd_, frame.data.data(), frame.data.size(), static_cast<off_t>(data_at + skip)) !=
        static_cast<ssize_t>(frame.data.size()))
      return io_fault("Cannot read an output file");
    cursor.position = data_at + header.length;
    cursor.offset = frame_end;
    return true;
  }
  return false;
}

}  // namespace nodus::executor
