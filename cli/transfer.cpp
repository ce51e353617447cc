#include "cli/transfer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "libs/base/random.hpp"
#include "libs/base/sha256.hpp"
#include "libs/http/target.hpp"

namespace nodus::cli {
namespace json = boost::json;
namespace {
constexpr int kRestarts = 3;  // of a copy whose file changed, or whose upload was forgotten
constexpr Millis kIdle{60'000};

std::string text_of(const json::object& object, const char* name) {
  const auto* value = object.if_contains(name);
  return value && value->is_string() ? std::string(value->get_string()) : "";
}

// The bytes of a name: "nameBase64" when it is not UTF-8.
std::string bytes_of(const json::object& object, const std::string& name) {
  std::string bytes;
  const std::string whole = text_of(object, (name + "Base64").c_str());
  return !whole.empty() && from_base64(whole, bytes) ? bytes : text_of(object, name.c_str());
}

timespec time_of(const std::string& text) {  // 2026-01-01T00:00:00.000000000Z
  tm parts{};
  const char* rest = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  timespec at{rest ? timegm(&parts) : 0, 0};
  if (rest && *rest == '.')
    at.tv_nsec = std::clamp(std::atol(std::string(rest + 1, std::min<size_t>(9, strlen(rest + 1))).c_str()),
                            0L, 999'999'999L);
  return at;
}

RemoteInfo info_of(const json::object& object) {
  RemoteInfo info;
  info.type = text_of(object, "type");
  if (const auto* size = object.if_contains("size"); size && size->is_number())
    info.size = size->to_number<uint64_t>();
  info.mode = static_cast<mode_t>(std::strtoul(text_of(object, "mode").c_str(), nullptr, 8)) & 0777;
  info.mtime = time_of(text_of(object, "mtime"));
  info.target = bytes_of(object, "target");
  info.etag = text_of(object, "etag");
  return info;
}

std::string mtime_field(const timespec& at) {
  return fmt::format("{}.{:09}", at.tv_sec, at.tv_nsec);
}

std::unexpected<Error> bad_answer() {
  return fail(Code::kInternal, "BadAnswer",
              "The server's answer is not what was asked for: is NODUS_API right?");
}

std::optional<uint64_t> next_offset(const Error& error) {
  boost::system::error_code fault;
  const auto details = json::parse(error.details_json.empty() ? "null" : error.details_json, fault);
  const auto* object = fault ? nullptr : details.if_object();
  const auto* offset = object ? object->if_contains("offset") : nullptr;
  return offset && offset->is_number() ? std::optional(offset->to_number<uint64_t>()) : std::nullopt;
}

// As many bytes as there are, up to `most`; fewer only at the end.
Result<std::string> read_full(int file, const std::string& name, size_t most) {
  std::string bytes(most, '\0');
  size_t got = 0;
  while (got < most) {
    const ssize_t part = read(file, bytes.data() + got, most - got);
    if (part == 0) break;
    if (part < 0 && errno != EINTR) return errno_fault(name);
    if (part > 0) got += static_cast<size_t>(part);
  }
  bytes.resize(got);
  return bytes;
}

Result<void> check_digest(const std::string& body, const std::string& mine) {
  boost::system::error_code fault;
  const auto answer = json::parse(body, fault);
  const auto* object = fault ? nullptr : answer.if_object();
  if (!object) return bad_answer();
  const std::string theirs = text_of(*object, "sha256");
  if (theirs.empty() || theirs == mine) return {};
  return fail(
      Code::kUnavailable, "DigestMismatch",
      "What was written is not what was read here: the file changed meanwhile, or was damaged on its way.");
}
}  // namespace

Meter::Meter(Console& console, std::string name, std::optional<uint64_t> total)
    : console_(console),
      name_(shown(name)),
      total_(total),
      begun_(console.clock->boot()),
      terminal_(isatty(STDERR_FILENO) == 1) {}

Meter::~Meter() {
  if (said_ != Micros(0) && terminal_) console_.err << "\r\033[K" << std::flush;
}

void Meter::at(uint64_t bytes) {
  const Micros now = console_.clock->boot();
  const Micros pause = terminal_ ? Micros(Millis(250)) : Micros(Seconds(10));
  if (console_.quiet || now - begun_ < Seconds(2) || (said_ != Micros(0) && now - said_ < pause)) return;
  said_ = now;
  constexpr double kMi = 1 << 20;
  const double done = static_cast<double>(bytes) / kMi;
  const double seconds = std::chrono::duration<double>(now - begun_).count();
  const std::string of = total_ ? fmt::format(" of {:.1f}", static_cast<double>(*total_) / kMi) : "";
  console_.err << fmt::format("{}{}: {:.1f}{} MiB, {:.1f} MiB/s{}", terminal_ ? "\r\033[K" : "", name_, done,
                              of, done / seconds, terminal_ ? "" : "\n")
               << std::flush;
}

http::ClientRequest Files::request(const std::string& method, const std::string& path,
                                   const std::string& more) const {
  http::ClientRequest request;
  request.method = method;
  request.url =
      api_.url("/sandboxes/" + http::escape(sandbox_) + "/files?path=" + http::escape(path, true) + more);
  request.total_time = Millis(0);
  request.idle_time = kIdle;
  return request;
}

static std::string starting(const std::string& sandbox) {
  return fmt::format("sandboxes/{} is starting; waiting for it", sandbox);
}

Result<RemoteInfo> Files::stat(const std::string& path, bool follow) {
  auto answer = api_.call(request("GET", path, follow ? "&stat=true&follow=true" : "&stat=true"), {},
                          starting(sandbox_));
  if (!answer) return std::unexpected(answer.error());
  boost::system::error_code fault;
  const auto body = json::parse(answer->body, fault);
  return fault || !body.is_object() ? Result<RemoteInfo>(bad_answer()) : info_of(body.get_object());
}

Result<void> Files::list(const std::string& path,
                         const std::function<Result<void>(const RemoteEntry&)>& each) {
  for (std::string more;;) {
    auto answer = api_.call(request("GET", path, "&list=true&limit=1000" + more), {}, starting(sandbox_));
    if (!answer) return std::unexpected(answer.error());
    boost::system::error_code fault;
    const auto body = json::parse(answer->body, fault);
    const auto* page = fault ? nullptr : body.if_object();
    const auto* items = page ? page->if_contains("items") : nullptr;
    if (!items || !items->is_array()) return bad_answer();
    for (const auto& item : items->get_array()) {
      if (!item.is_object()) return bad_answer();
      if (auto done = each({bytes_of(item.get_object(), "name"), info_of(item.get_object())}); !done)
        return done;
    }
    const auto* metadata = page->if_contains("metadata");
    const std::string next =
        metadata && metadata->is_object() ? text_of(metadata->get_object(), "continue") : "";
    if (next.empty()) return {};
    const std::string asked = "&continue=" + http::escape(next);
    if (asked == more) return bad_answer();
    more = asked;
  }
}

Result<void> Files::make_directory(const std::string& path, mode_t mode, bool always,
                                   std::optional<timespec> mtime) {
  std::string more = fmt::format("&type=directory&{}={:04o}", always ? "setMode" : "mode", mode & 0777);
  if (mtime) more += "&mtime=" + mtime_field(*mtime);
  auto answer = api_.call(request("PUT", path, more), {}, starting(sandbox_));
  if (!answer) return std::unexpected(answer.error());
  return {};
}

Result<void> Files::make_link(const std::string& path, const std::string& target) {
  auto answer =
      api_.call(request("PUT", path, "&type=symlink&target=" + http::escape(target)), {}, starting(sandbox_));
  if (!answer) return std::unexpected(answer.error());
  return {};
}

std::string Files::attributes(const struct stat& info) const {
  if (!S_ISREG(info.st_mode)) return "";
  if (preserve_)
    return fmt::format("&setMode={:04o}&mtime={}", info.st_mode & 0777, mtime_field(info.st_mtim));
  return fmt::format("&mode={:04o}", info.st_mode & 0777);
}

Result<void> Files::upload(int file, const std::string& name, const std::string& path) {
  struct stat info{};
  if (fstat(file, &info) != 0) return errno_fault(name);
  if (S_ISDIR(info.st_mode))
    return local_fault(fmt::format("{} is a directory; give -r to copy it.", shown(name)));
  if (S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_size) <= kPartBytes)
    return upload_whole(file, name, path, info);
  return upload_parts(file, name, path, info);
}

Result<void> Files::upload_whole(int file, const std::string& name, const std::string& path,
                                 const struct stat& info) {
  http::ClientRequest put = request("PUT", path, attributes(info));
  put.headers.set("Content-Type", "application/octet-stream");
  Meter meter(api_.console(), name, static_cast<uint64_t>(info.st_size));
  Sha256Sum hash;
  uint64_t sent = 0;
  int read_fault = 0;
  put.read_body = [&](char* into, size_t space) -> size_t {
    const ssize_t got = pread(file, into, space, static_cast<off_t>(sent));
    if (got < 0) {
      read_fault = errno;
      return SIZE_MAX;
    }
    hash.add({into, static_cast<size_t>(got)});
    meter.at(sent += static_cast<uint64_t>(got));
    return static_cast<size_t>(got);
  };
  put.body_size = info.st_size;
  const auto answer = api_.call(
      std::move(put),
      [&](http::ClientRequest&) {
        hash = Sha256Sum();
        sent = 0;
      },
      starting(sandbox_));
  errno = read_fault;
  if (read_fault != 0) return errno_fault(name);
  if (!answer) return std::unexpected(answer.error());
  return check_digest(answer->body, hash.hex());
}

// One part after the other; each is repeated until the server has it, from where the server says it stands.
Result<void> Files::upload_parts(int file, const std::string& name, const std::string& path,
                                 const struct stat& info) {
  const bool regular = S_ISREG(info.st_mode);
  const auto total = regular ? std::optional(static_cast<uint64_t>(info.st_size)) : std::nullopt;
  Meter meter(api_.console(), name, total);
  for (int restart = 0;; ++restart) {
    const std::string id = random_uuid();
    Sha256Sum hash;
    uint64_t start = 0;  // of the part that is held
    bool again = false;
    while (!again) {
      auto part = read_full(file, name, kPartBytes);
      if (!part) return std::unexpected(part.error());
      hash.add(*part);
      const uint64_t end = start + part->size();
      const bool last = part->size() < kPartBytes || (total && end >= *total);
      if (total && last && end != *total)
        return local_fault(fmt::format("{} changed while it was read.", shown(name)));
      const std::string whole = last ? std::to_string(end) : "*";
      for (uint64_t from = start;;) {
        http::ClientRequest put = request(
            "PUT", path, "&upload=" + id + attributes(info) + (last ? "&contentSHA256=" + hash.hex() : ""));
        put.headers.set("Content-Type", "application/octet-stream");
        put.headers.set("Content-Range", from == end ? fmt::format("bytes */{}", end)
                                                     : fmt::format("bytes {}-{}/{}", from, end - 1, whole));
        put.body = part->substr(from - start);
        auto answer = api_.call(std::move(put), {}, starting(sandbox_));
        meter.at(end);
        if (answer && last) return check_digest(answer->body, hash.hex());
        if (answer) break;
        const auto offset =
            answer.error().reason == "UploadOffset" ? next_offset(answer.error()) : std::nullopt;
        if (offset && *offset > from && *offset <= end) {
          from = *offset;  // a connection broke off, but brought something
          if (from == end && !last) break;
          continue;
        }
        again = answer.error().reason == "UploadUnknown" && regular && restart < kRestarts;
        if (!again) return std::unexpected(answer.error());
        break;
      }
      start = end;
    }
    lseek(file, 0, SEEK_SET);  // the Sandbox was stopped meanwhile: from the beginning
  }
}

// Where a download goes: it may be taken back to an earlier size, or not.
struct Files::Sink {
  std::function<Result<void>(std::string_view)> write;
  std::function<Result<void>(uint64_t)> cut_to;  // empty: what was written stays written
  uint64_t written = 0;
  std::optional<Error> fault;  // of the local side
  http::Headers headers;       // of the answer to the last call
  Meter* meter = nullptr;
  std::string etag;
};

// Bytes [from, to) of the file; to 0: all of it, in one answer.
Result<void> Files::fetch_range(const std::string& path, Sink& sink, uint64_t from, uint64_t to) {
  http::ClientRequest get = request("GET", path, "");
  get.headers.set("Want-Content-Digest", "sha-256=1");
  if (!sink.etag.empty()) get.headers.set("If-Match", sink.etag);
  Sha256Sum hash;
  get.on_body = [&](std::string_view part) {
    if (auto written = sink.write(part); !written) {
      sink.fault = written.error();
      return false;
    }
    hash.add(part);
    sink.written += part.size();
    if (sink.meter) sink.meter->at(sink.written);
    return true;
  };
  for (int attempt = 0;; ++attempt) {
    const auto answer = api_.call(
        get,
        [&](http::ClientRequest& again) {
          hash = Sha256Sum();
          if (sink.cut_to && sink.written != from) {
            if (auto cut = sink.cut_to(from); !cut) sink.fault = cut.error();
            sink.written = from;
          }
          if (to > 0) again.headers.set("Range", fmt::format("bytes={}-{}", sink.written, to - 1));
        },
        starting(sandbox_));
    if (sink.fault) return std::unexpected(*sink.fault);
    if (!answer) return std::unexpected(answer.error());
    sink.headers = answer->headers;
    const std::string digest = answer->headers.get("Content-Digest").value_or("");
    std::string raw;
    const bool right = !digest.starts_with("sha-256=:") || !digest.ends_with(":") ||
                       (from_base64(digest.substr(9, digest.size() - 10), raw) && to_hex(raw) == hash.hex());
    if (right) return {};
    if (!sink.cut_to || attempt + 1 >= kRestarts)
      return fail(Code::kUnavailable, "DigestMismatch", "The bytes were damaged on their way.");
  }
}

Result<void> Files::fetch(const std::string& path, Sink& sink) {
  if (sink.cut_to) {  // most files: one request
    auto whole = fetch_range(path, sink, 0, 0);
    if (whole || whole.error().reason != "FileTooLarge") return whole;
  }
  for (int restart = 0;; ++restart) {
    auto info = stat(path, true);
    if (!info) return std::unexpected(info.error());
    if (info->type != "file")
      return fail(Code::kInvalid, "NotAFile",
                  fmt::format("{} is a {}, not a file.", shown(path), info->type));
    const uint64_t size = info->size;
    sink.etag = info->etag;
    Meter meter(api_.console(), path, size);
    sink.meter = &meter;
    Result<void> part;
    while (part && sink.written < size)
      part = fetch_range(path, sink, sink.written, std::min(size, sink.written + kPartBytes));
    sink.meter = nullptr;
    const bool changed = !part && (part.error().reason == "PreconditionFailed" ||
                                   part.error().reason == "RangeNotSatisfiable");
    if (!changed || !sink.cut_to || restart >= kRestarts) return part;
    if (auto cut = sink.cut_to(0); !cut) return cut;
    sink.written = 0;
  }
}

Result<void> Files::download(const std::string& path, int directory, const std::string& name,
                             const std::string& said, bool follow) {
  auto file = NewFile::create(directory, name, said, follow);
  if (!file) return std::unexpected(file.error());
  Sink sink;
  sink.write = [&](std::string_view bytes) { return file->write(bytes); };
  if (!file->in_place()) sink.cut_to = [&](uint64_t size) { return file->cut_to(size); };
  if (auto fetched = fetch(path, sink); !fetched) return fetched;
  std::optional<mode_t> mode;
  std::optional<timespec> mtime;
  if (const auto text = sink.headers.get("X-Nodus-Mode"))
    mode = static_cast<mode_t>(std::strtoul(text->c_str(), nullptr, 8)) & 0777;
  if (preserve_) {
    auto info = stat(path, true);
    if (!info) return std::unexpected(info.error());
    mtime = info->mtime;
  }
  return file->keep(mode, mtime);
}

Result<void> Files::download_to_output(const std::string& path, int output) {
  Sink sink;
  sink.write = [&](std::string_view bytes) -> Result<void> {
    while (!bytes.empty()) {
      const ssize_t wrote = ::write(output, bytes.data(), bytes.size());
      if (wrote < 0 && errno != EINTR) return errno_fault("standard output");
      if (wrote > 0) bytes.remove_prefix(static_cast<size_t>(wrote));
    }
    return {};
  };
  return fetch(path, sink);
}

}  // namespace nodus::cli
