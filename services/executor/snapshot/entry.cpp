#include "services/executor/snapshot/entry.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "libs/base/check.hpp"
#include "libs/base/random.hpp"
#include "services/executor/app/ports.hpp"

namespace nodus::executor {
namespace {
constexpr size_t kBuffer = 256 * 1024;
constexpr char kExtentsName[] = "nodus.extents";  // "size offset length offset length …"
using EntryPtr = std::unique_ptr<archive_entry, decltype(&archive_entry_free)>;

EntryPtr new_entry() {
  return {archive_entry_new(), archive_entry_free};
}

std::string extents_text(const Entry& entry) {
  std::string text = fmt::format("{}", entry.size);
  for (const auto& extent : entry.extents) text += fmt::format(" {} {}", extent.offset, extent.length);
  return text;
}

// False for anything but ascending extents within the size, of non-zero length.
bool parse_extents(std::string_view text, Entry& entry) {
  std::vector<int64_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end && numbers.size() <= 2 * kMostExtents + 1) {
    int64_t number = 0;
    const auto parsed = std::from_chars(at, end, number);
    if (parsed.ec != std::errc() || number < 0) return false;
    numbers.push_back(number);
    if (parsed.ptr != end && (*parsed.ptr != ' ' || parsed.ptr + 1 == end)) return false;
    at = parsed.ptr == end ? end : parsed.ptr + 1;
  }
  if (at != end || numbers.size() % 2 != 1) return false;
  entry.size = numbers[0];
  int64_t last = 0;
  for (size_t i = 1; i < numbers.size(); i += 2) {
    const Extent extent{numbers[i], numbers[i + 1]};
    if (extent.offset < last || extent.length <= 0 || extent.length > entry.size ||
        extent.offset > entry.size - extent.length)
      return false;
    last = extent.offset + extent.length;
    entry.extents.push_back(extent);
  }
  return true;
}

bool is_whole(const Entry& entry) {
  return entry.size == 0 ? entry.extents.empty()
                         : entry.extents.size() == 1 && entry.extents[0] == Extent{0, entry.size};
}

void read_common(archive_entry* from, Entry& entry) {
  entry.uid = archive_entry_uid(from);
  entry.gid = archive_entry_gid(from);
  entry.mode = archive_entry_perm(from) & 01777;
  entry.mtime_s = archive_entry_mtime(from);
  entry.mtime_ns = archive_entry_mtime_nsec(from);
}

Result<void> read_regular(archive_entry* from, const std::string& extents, Entry& entry) {
  const int64_t stored = archive_entry_size(from);
  if (stored < 0) return snapshot_fault("A file has no size.");
  if (extents.empty()) {
    entry.size = stored;
    if (stored > 0) entry.extents = {{0, stored}};
  } else if (!parse_extents(extents, entry) || entry.data_bytes() != stored) {
    return snapshot_fault("A file's list of extents is damaged.");
  }
  return {};
}

Result<std::string> relative_path(const char* text) {
  if (!text) return snapshot_fault("An entry has no name, or one that cannot be read.");
  std::string path = text;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path == "." ? std::string() : path;
}
}  // namespace

int64_t Entry::data_bytes() const {
  int64_t sum = 0;
  for (const auto& extent : extents) sum += extent.length;
  return sum;
}

bool attribute_allowed(std::string_view name) {
  if (name.size() > 255 || name.find('\0') != name.npos) return false;
  return (name.starts_with("user.") && !name.starts_with("user.overlay.")) ||
         name == "trusted.overlay.opaque" || name == "trusted.overlay.redirect";
}

std::unexpected<Error> snapshot_fault(std::string message) {
  return fail(Code::kInternal, "SnapshotFailed", std::move(message));
}
std::unexpected<Error> snapshot_refused(std::string message) {
  return fail(Code::kTooLarge, kCannotBeSaved, std::move(message));
}
std::unexpected<Error> snapshot_errno(const std::string& what) {
  return snapshot_fault(what + ": " + std::strerror(errno) + ".");
}

Digest::Digest() : context_(EVP_MD_CTX_new()) {
  CHECK(context_ && EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1);
}
Digest::~Digest() {
  EVP_MD_CTX_free(context_);
}
void Digest::add(std::string_view bytes) {
  CHECK(EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1);
}
void Digest::add(const Entry& entry) {
  add(fmt::format("{}\n{:o} {:o} {} {} {} {} {}\n{}\n{}\n", entry.path, entry.type, entry.mode, entry.uid,
                  entry.gid, entry.mtime_s, entry.mtime_ns, extents_text(entry), entry.link,
                  entry.hard_link));
  for (const auto& [name, value] : entry.attributes)
    add(fmt::format("{} {}\n{}\n", name, value.size(), value));
}
std::string Digest::hex() {
  unsigned char bytes[32];
  CHECK(EVP_DigestFinal_ex(context_, bytes, nullptr) == 1);
  return to_hex({reinterpret_cast<const char*>(bytes), sizeof bytes});
}

ArchiveWriter::ArchiveWriter(int fd) : fd_(fd), archive_(archive_write_new()) {}
ArchiveWriter::~ArchiveWriter() {
  archive_write_free(archive_);
}

Result<void> ArchiveWriter::fault(const char* what) {
  const char* why = archive_error_string(archive_);
  return snapshot_fault(fmt::format("{}: {}.", what, why ? why : "unknown"));
}

ssize_t ArchiveWriter::write_part(archive* a, void* self, const void* data, size_t size) {
  auto& writer = *static_cast<ArchiveWriter*>(self);
  const char* at = static_cast<const char*>(data);
  for (size_t left = size; left > 0;) {
    const ssize_t put = write(writer.fd_, at, left);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return archive_set_error(a, errno, "%s", std::strerror(errno)), -1;
    writer.file_digest_.add(std::string_view(at, static_cast<size_t>(put)));
    writer.size_ += put;
    at += put, left -= put;
  }
  return static_cast<ssize_t>(size);
}

Result<void> ArchiveWriter::begin() {
  if (archive_write_set_format_pax(archive_) != ARCHIVE_OK ||
      archive_write_add_filter_zstd(archive_) != ARCHIVE_OK ||
      archive_write_set_options(archive_, "zstd:compression-level=1,hdrcharset=BINARY") != ARCHIVE_OK ||
      archive_write_set_bytes_per_block(archive_, kBuffer) != ARCHIVE_OK ||
      archive_write_set_bytes_in_last_block(archive_, 1) != ARCHIVE_OK ||
      archive_write_open(archive_, this, nullptr, write_part, nullptr) != ARCHIVE_OK)
    return fault("Cannot begin a snapshot");
  return {};
}

Result<void> ArchiveWriter::entry(const Entry& entry) {
  const auto to = new_entry();
  const std::string path = entry.path.empty() ? "." : entry.path;
  archive_entry_set_pathname(to.get(), path.c_str());
  archive_entry_set_filetype(to.get(), entry.type);
  archive_entry_set_perm(to.get(), entry.mode);
  archive_entry_set_uid(to.get(), entry.uid);
  archive_entry_set_gid(to.get(), entry.gid);
  archive_entry_set_mtime(to.get(), entry.mtime_s, entry.mtime_ns);
  if (entry.type == S_IFREG)
    archive_entry_set_size(to.get(), entry.hard_link.empty() ? entry.data_bytes() : 0);
  if (entry.type == S_IFCHR) archive_entry_set_rdev(to.get(), 0);
  if (!entry.link.empty()) archive_entry_set_symlink(to.get(), entry.link.c_str());
  if (!entry.hard_link.empty()) archive_entry_set_hardlink(to.get(), entry.hard_link.c_str());
  for (const auto& [name, value] : entry.attributes)
    archive_entry_xattr_add_entry(to.get(), name.c_str(), value.data(), value.size());
  if (entry.type == S_IFREG && entry.hard_link.empty() && !is_whole(entry)) {
    const std::string extents = extents_text(entry);
    archive_entry_xattr_add_entry(to.get(), kExtentsName, extents.data(), extents.size());
  }
  // A warning here means that a name or attribute is not stored as it is. Only a fatal fault is the file's.
  const int put = archive_write_header(archive_, to.get());
  if (put == ARCHIVE_OK) return {};
  const auto failed = fault("Cannot write an entry");
  return put == ARCHIVE_FATAL ? failed : snapshot_refused(failed.error().message);
}

Result<void> ArchiveWriter::data(std::string_view bytes) {
  while (!bytes.empty()) {
    const la_ssize_t put = archive_write_data(archive_, bytes.data(), bytes.size());
    if (put <= 0) return fault("Cannot write a snapshot");
    bytes.remove_prefix(put);
  }
  return {};
}

Result<void> ArchiveWriter::end() {
  if (archive_write_close(archive_) != ARCHIVE_OK) return fault("Cannot write a snapshot");
  return {};
}

ArchiveReader::ArchiveReader(int fd) : fd_(fd), archive_(archive_read_new()), buffer_(kBuffer) {}
ArchiveReader::~ArchiveReader() {
  archive_read_free(archive_);
}

Result<void> ArchiveReader::fault(const char* what) {
  const char* why = archive_error_string(archive_);
  return snapshot_fault(fmt::format("{}: {}.", what, why ? why : "unknown"));
}

ssize_t ArchiveReader::read_part(archive* a, void* self, const void** data) {
  auto& reader = *static_cast<ArchiveReader*>(self);
  ssize_t got;
  do got = read(reader.fd_, reader.buffer_.data(), reader.buffer_.size());
  while (got < 0 && errno == EINTR);
  if (got < 0) {
    reader.interrupted_ = true;
    archive_set_error(a, errno, "%s", std::strerror(errno));
  }
  *data = reader.buffer_.data();
  return got;
}

Result<void> ArchiveReader::begin() {
  if (archive_read_support_format_tar(archive_) != ARCHIVE_OK ||
      archive_read_support_filter_zstd(archive_) != ARCHIVE_OK ||
      archive_read_open(archive_, this, nullptr, read_part, nullptr) != ARCHIVE_OK)
    return fault("Cannot read a snapshot");
  return {};
}

Result<bool> ArchiveReader::next(Entry& entry) {
  archive_entry* from = nullptr;
  const int got = archive_read_next_header(archive_, &from);
  if (got == ARCHIVE_EOF) return false;
  if (got != ARCHIVE_OK) return std::unexpected(fault("A snapshot is damaged").error());
  entry = {};
  auto path = relative_path(archive_entry_pathname(from));
  if (!path) return std::unexpected(path.error());
  entry.path = std::move(*path);
  entry.type = archive_entry_filetype(from);
  read_common(from, entry);
  if (archive_entry_sparse_count(from) > 0)
    return snapshot_fault("An entry is sparse in a way we do not write.");
  std::string extents;
  const char* name;
  const void* value;
  size_t size;
  archive_entry_xattr_reset(from);
  while (archive_entry_xattr_next(from, &name, &value, &size) == ARCHIVE_OK) {
    const std::string_view text(static_cast<const char*>(value), size);
    if (std::string_view(name) == kExtentsName)
      extents = text;
    else if (attribute_allowed(name) && size <= kMostAttribute)
      entry.attributes[name] = text;
  }
  if (const char* target = archive_entry_hardlink(from)) {
    auto link = relative_path(target);
    if (!link) return std::unexpected(link.error());
    if (link->empty()) return snapshot_fault("A hard link leads to a directory.");
    entry.hard_link = std::move(*link);
    entry.type = S_IFREG;
    return true;
  }
  if (entry.type == S_IFLNK) {
    const char* target = archive_entry_symlink(from);
    if (!target || !*target) return snapshot_fault("A symbolic link leads nowhere.");
    entry.link = target;
  } else if (entry.type == S_IFREG) {
    if (auto read = read_regular(from, extents, entry); !read) return std::unexpected(read.error());
  } else if (entry.type == S_IFCHR) {
    if (archive_entry_rdev(from) != 0) return snapshot_fault("A device node that is no whiteout.");
  } else if (entry.type != S_IFDIR && entry.type != S_IFIFO) {
    return snapshot_fault("An entry of a kind that snapshots do not hold.");
  }
  return true;
}

Result<void> ArchiveReader::data(int64_t limit, const std::function<Result<void>(std::string_view)>& sink) {
  int64_t total = 0;
  std::vector<char> part(kBuffer);
  for (;;) {
    const la_ssize_t got = archive_read_data(archive_, part.data(), part.size());
    if (got == 0) return {};
    if (got < 0) return fault("A snapshot is damaged");
    total += got;
    if (total > limit) return snapshot_fault("A file in a snapshot is larger than it says.");
    if (auto taken = sink({part.data(), static_cast<size_t>(got)}); !taken) return taken;
  }
}

}  // namespace nodus::executor
