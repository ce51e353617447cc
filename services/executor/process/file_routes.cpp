// The files of a Sandbox, over HTTP: reading and writing. Lists and uploads by parts: file_listing,
// file_parts.
#include "services/executor/process/file_routes.hpp"

#include <fmt/format.h>

#include "libs/base/random.hpp"
#include "services/executor/helper/sha256.hpp"

namespace nodus::executor {
namespace json = boost::json;
using boost::asio::awaitable;

Error file_too_large() {
  return {Code::kTooLarge,
          "FileTooLarge",
          "A file is at most 64 MiB per request; read and write a larger one by parts.",
          {},
          {},
          {}};
}

void put_bytes(json::object& into, const std::string& name, std::string_view bytes) {
  const std::string shown = printable_utf8(bytes);
  if (shown != bytes) into[name + "Base64"] = to_base64(bytes);
  into[name] = shown;
}

std::string printable_utf8(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[at]);
    const size_t size = lead < 0x80                   ? 1
                        : lead >= 0xf0 && lead < 0xf5 ? 4
                        : lead >= 0xe0 && lead < 0xf0 ? 3
                        : lead >= 0xc2 && lead < 0xe0 ? 2
                                                      : 0;
    bool right = size > 0 && at + size <= bytes.size();
    uint32_t point = size == 1 ? lead : lead & (0x7fu >> size);
    for (size_t i = 1; right && i < size; ++i) {
      const auto next = static_cast<unsigned char>(bytes[at + i]);
      right = (next & 0xc0) == 0x80;
      point = point << 6 | (next & 0x3f);
    }
    right = right && !(size == 3 && (point < 0x800 || (point >= 0xd800 && point < 0xe000))) &&
            !(size == 4 && (point < 0x10000 || point > 0x10ffff));
    text += right ? bytes.substr(at, size) : std::string_view("\xef\xbf\xbd");
    at += right ? size : 1;
  }
  return text;
}

bool closing(const RouteContext& context, const SlotProcesses& slot) {
  return slot.closed_for() > context.desk->limits().closing_grace;
}

Error slot_closing() {
  return {Code::kConflict, "SlotNotRunning", "The Sandbox is stopping.", {}, {}, {}};
}

awaitable<Result<FileRequest>> begin_file(const RouteContext& context, const http::Exchange& exchange) {
  FileRequest request;
  auto slot = find_slot(context, exchange.request());
  if (!slot) co_return std::unexpected(slot.error());
  request.slot = std::move(*slot);
  auto query = parse_file_query(exchange.request());
  if (!query) co_return std::unexpected(query.error());
  request.query = std::move(*query);
  auto under_way = request.slot->begin_file_request();
  if (!under_way) co_return std::unexpected(under_way.error());
  request.under_way = std::move(*under_way);
  co_return std::move(request);
}

awaitable<Result<void>> open_stream(const RouteContext& context, FileRequest& request) {
  auto turn = co_await context.desk->turn(request.slot->slot().key);
  if (!turn) co_return std::unexpected(turn.error());
  request.turn = std::move(*turn);
  auto stream = co_await FileStream::open(request.slot->slot());
  if (!stream) co_return std::unexpected(stream.error());
  request.stream = std::move(*stream);
  co_return Result<void>();
}

namespace {
constexpr size_t kMaxIdempotencyKey = 128;

// ---- GET and HEAD

struct Conditions {
  std::optional<http::Response> answer;  // 304
  std::optional<Error> refusal;          // 412
  bool range_holds = true;
};

std::string upper_etag(const std::string& etag) {  // as If-None-Match compares: weak or strong
  return "W/" + etag;
}

// RFC 9110, 13.2.2.
Conditions judge(const http::Headers& headers, const FileInfo& info) {
  Conditions found;
  const int64_t seconds = info.mtime_ns / 1'000'000'000;
  const auto date = [&](const char* name) { return parse_http_date(headers.get(name).value_or("")); };
  const auto match = headers.get("If-Match"), none = headers.get("If-None-Match");
  const auto unmodified = date("If-Unmodified-Since"), modified = date("If-Modified-Since");
  if (match ? !helper::names_etag(*match, info.etag) : unmodified && seconds > *unmodified) {
    found.refusal = Error{Code::kPreconditionFailed,
                          "PreconditionFailed",
                          "The file was changed. Read it again from the beginning.",
                          {},
                          {},
                          {}};
  } else if (none ? helper::names_etag(*none, info.etag) || helper::names_etag(*none, upper_etag(info.etag))
                  : modified && seconds <= *modified) {
    found.answer = http::Response{304, {}, {}};
    found.answer->headers.set("ETag", info.etag);
  }
  if (const auto since = headers.get("If-Range"))
    found.range_holds = *since == info.etag || (parse_http_date(*since) == seconds);
  return found;
}

http::Headers file_headers(const FileInfo& info) {
  http::Headers headers;
  headers.set("Content-Type", "application/octet-stream");
  headers.set("X-Content-Type-Options", "nosniff");
  headers.set("Cache-Control", "private, no-cache");
  headers.set("Accept-Ranges", "bytes");
  headers.set("ETag", info.etag);
  headers.set("Last-Modified", http_date(info.mtime_ns));
  headers.set("X-Nodus-Mode", fmt::format("{:04o}", info.mode));
  return headers;
}

std::string digest_field(const std::string& sha256) {
  std::string bytes;
  for (size_t i = 0; i + 1 < sha256.size(); i += 2)
    bytes += static_cast<char>(std::stoi(sha256.substr(i, 2), nullptr, 16));
  return "sha-256=:" + to_base64(bytes) + ":";
}

awaitable<void> refuse_range(http::Exchange& exchange, uint64_t size) {
  http::Response response = http::status({Code::kBadRequest,
                                          "RangeNotSatisfiable",
                                          "The file has no bytes there; Content-Range says how long it is.",
                                          {},
                                          {},
                                          {}});
  response.headers.set("Content-Range", fmt::format("bytes */{}", size));
  response.headers.set("X-Nodus-Reason", "RangeNotSatisfiable");
  co_await exchange.respond(std::move(response));
}

awaitable<void> send_bytes(const RouteContext& context, http::Exchange& exchange, FileRequest& file) {
  for (;;) {
    auto part = co_await file.stream->read();
    if (!part) co_return;  // unfinished: the client sees the answer break off
    if (part->empty()) break;
    if (closing(context, *file.slot) || !co_await exchange.write(*part)) co_return;
  }
  co_await exchange.finish();
}

awaitable<void> get_content(const RouteContext& context, http::Exchange& exchange, FileRequest& file) {
  const auto& request = exchange.request();
  if (auto opened = co_await open_stream(context, file); !opened)
    co_return co_await refuse(exchange, opened.error());
  auto reply = co_await file.stream->get(file.query.options.path);
  if (!reply) co_return co_await refuse(exchange, reply.error());
  const FileInfo info = reply->info;
  auto conditions = judge(request.headers, info);
  if (conditions.refusal) co_return co_await refuse(exchange, *conditions.refusal);
  if (conditions.answer) co_return co_await exchange.respond(std::move(*conditions.answer));
  ByteRange range;
  if (const auto header = request.headers.get("Range"); header && conditions.range_holds)
    range = parse_range(*header, info.size);
  if (range.kind == ByteRange::Kind::kUnsatisfiable) co_return co_await refuse_range(exchange, info.size);
  const bool part = range.kind == ByteRange::Kind::kPart;
  if (!part) range = {ByteRange::Kind::kAbsent, 0, info.size};
  const bool head = request.method == "HEAD";
  if (range.length > context.options.file_bytes && !head)
    co_return co_await refuse(exchange, file_too_large());
  http::Headers headers = file_headers(info);
  if (part)
    headers.set("Content-Range",
                fmt::format("bytes {}-{}/{}", range.offset, range.offset + range.length - 1, info.size));
  headers.set("Content-Length", std::to_string(range.length));
  const auto wanted = request.headers.get("Want-Content-Digest").value_or("");
  if (!head) {
    const bool digest = wanted.contains("sha-256") && !wanted.contains("sha-256=0");
    auto ready = co_await file.stream->read_range(range.offset, range.length, digest);
    if (!ready) co_return co_await refuse(exchange, ready.error());
    if (digest) headers.set("Content-Digest", digest_field(ready->sha256));
  }
  if (!co_await exchange.begin(part ? 206 : 200, std::move(headers))) co_return;
  if (head) co_return (void) co_await exchange.finish();
  co_await send_bytes(context, exchange, file);
}

awaitable<void> get_file(const RouteContext& context, http::Exchange& exchange) {
  auto file = co_await begin_file(context, exchange);
  if (!file) co_return co_await refuse(exchange, file.error());
  if (!file->query.upload.empty()) {
    co_await tell_upload(context, exchange, *file);
  } else if (file->query.stat) {
    co_await stat_path(context, exchange, *file);
  } else if (file->query.list) {
    co_await list_directory(context, exchange, *file);
  } else {
    co_await get_content(context, exchange, *file);
  }
}

// ---- PUT

// A repeat of a write that was done: the same answer, for the same bytes.
awaitable<void> repeat_answer(http::Exchange& exchange, const DoneWrite& done) {
  helper::Sha256 hash;
  for (;;) {
    auto part = co_await exchange.read_some();
    if (!part) co_return co_await refuse(exchange, part.error());
    if (part->empty()) break;
    hash.add(part->data(), part->size());
  }
  if (done.request == exchange.request().method + " " + exchange.request().target &&
      (done.sha256.empty() || done.sha256 == hash.hex()))
    co_return co_await exchange.respond(http::json(200, done.answer));
  co_await refuse(exchange, {Code::kInvalid,
                             "Invalid",
                             "Idempotency-Key: it was used for another write.",
                             {{"Idempotency-Key", "FieldValueInvalid", "It was used for another write."}},
                             {},
                             {}});
}

awaitable<void> put_content(const RouteContext& context, http::Exchange& exchange, FileRequest& file,
                            const std::string& key) {
  PutOptions& options = file.query.options;
  options.most = context.options.file_bytes;
  const auto length = parse_number(exchange.request().headers.get("Content-Length").value_or(""));
  if (auto opened = co_await open_stream(context, file); !opened)
    co_return co_await refuse(exchange, opened.error());
  auto sent = co_await file.stream->begin_put(options);
  uint64_t total = 0;
  std::optional<Error> broken;
  while (sent && !broken) {
    auto part = co_await exchange.read_some();
    if (part && part->empty()) break;
    if (!part) {
      broken = part.error();
    } else if ((total += part->size()) > options.most) {
      broken = file_too_large();
    } else if (closing(context, *file.slot)) {
      broken = slot_closing();
    } else {
      sent = co_await file.stream->write(*part);
    }
  }
  if (broken) {
    co_await file.stream->abandon();
    co_return co_await refuse(exchange, *broken);
  }
  const uint64_t size = length ? static_cast<uint64_t>(*length) : helper::kUnknownSize;
  auto reply = co_await file.stream->commit(size, file.query.content_sha256);
  if (!reply) co_return co_await refuse(exchange, reply.error());
  const std::string answer = written_answer(options.path, *reply);
  if (!key.empty())
    context.desk->remember(
        key, {exchange.request().method + " " + exchange.request().target, reply->sha256, answer});
  co_await exchange.respond(http::json(200, answer));
}

awaitable<void> make_entry(const RouteContext& context, http::Exchange& exchange, FileRequest& file) {
  auto body = co_await exchange.read_body(0);
  if (!body) co_return co_await refuse(exchange, body.error());
  if (auto opened = co_await open_stream(context, file); !opened)
    co_return co_await refuse(exchange, opened.error());
  auto reply = co_await file.stream->make(file.query.options, file.query.target);
  if (!reply) co_return co_await refuse(exchange, reply.error());
  json::object answer;
  put_bytes(answer, "path", file.query.options.path);
  answer["type"] = file.query.type;
  co_await exchange.respond(http::json(200, json::serialize(answer)));
}

// The key that makes a repeat of this write safe; empty: none was given.
Result<std::string> write_key(const FileRequest& file, const http::Request& request) {
  const std::string given = request.headers.get("Idempotency-Key").value_or("");
  if (given.size() > kMaxIdempotencyKey)
    return fail(Code::kBadRequest, "BadRequest", "An Idempotency-Key has at most 128 bytes.");
  return given.empty() ? given : file.slot->slot().key.text() + "/key/" + given;
}

awaitable<void> put_file(const RouteContext& context, http::Exchange& exchange) {
  auto file = co_await begin_file(context, exchange);
  if (!file) co_return co_await refuse(exchange, file.error());
  const auto length = parse_number(exchange.request().headers.get("Content-Length").value_or(""));
  if (length && static_cast<uint64_t>(*length) > context.options.file_bytes)
    co_return co_await refuse(exchange, file_too_large());
  if (!file->query.upload.empty()) co_return co_await put_part(context, exchange, *file);
  if (exchange.request().headers.get("Content-Range")) {
    // To take a part for the whole would destroy the file.
    Error error{Code::kBadRequest,
                "BadRequest",
                "Content-Range is for parts of an upload: give it a name, upload=.",
                {},
                {},
                {}};
    co_return co_await refuse(exchange, error);
  }
  if (file->query.type != "file") co_return co_await make_entry(context, exchange, *file);
  const auto key = write_key(*file, exchange.request());
  if (!key) co_return co_await refuse(exchange, key.error());
  std::shared_ptr<void> claimed;
  if (!key->empty()) {
    auto claim = co_await context.desk->claim(*key);
    if (!claim) co_return co_await refuse(exchange, claim.error());
    claimed = std::move(*claim);
    if (const auto done = context.desk->done(*key)) co_return co_await repeat_answer(exchange, *done);
  }
  co_await put_content(context, exchange, *file, *key);
}

// ---- DELETE

awaitable<void> delete_file(const RouteContext& context, http::Exchange& exchange) {
  auto file = co_await begin_file(context, exchange);
  if (!file) co_return co_await refuse(exchange, file.error());
  if (!file->query.upload.empty()) co_return co_await end_upload(context, exchange, *file);
  const auto key = write_key(*file, exchange.request());
  if (!key) co_return co_await refuse(exchange, key.error());
  std::shared_ptr<void> claimed;
  if (!key->empty()) {
    auto claim = co_await context.desk->claim(*key);
    if (!claim) co_return co_await refuse(exchange, claim.error());
    claimed = std::move(*claim);
    if (const auto done = context.desk->done(*key)) co_return co_await repeat_answer(exchange, *done);
  }
  if (auto opened = co_await open_stream(context, *file); !opened)
    co_return co_await refuse(exchange, opened.error());
  auto reply = co_await file->stream->remove(file->query.options.path, file->query.options.if_match);
  if (!reply) co_return co_await refuse(exchange, reply.error());
  json::object body;
  put_bytes(body, "path", file->query.options.path);
  const std::string answer = json::serialize(body);
  if (!key->empty())
    context.desk->remember(*key, {exchange.request().method + " " + exchange.request().target, "", answer});
  co_await exchange.respond(http::json(200, answer));
}
}  // namespace

std::string written_answer(const std::string& path, const FileReply& reply) {
  json::object answer;
  put_bytes(answer, "path", path);
  answer["size"] = reply.info.size;
  answer["sha256"] = reply.sha256;
  answer["etag"] = reply.info.etag;
  return json::serialize(answer);
}

void file_routes(http::Server& server, const std::shared_ptr<const RouteContext>& context) {
  const auto route = [&](const char* method, const char* name, auto handler) {
    server.route(
        {.method = method,
         .pattern = "/v1/slots/{uid}/epochs/{epoch}/files",
         .name = name,
         .handler = {},
         .stream = [context, handler](http::Exchange& exchange) { return handler(*context, exchange); },
         .body_bytes = {}});
  };
  route("GET", "node.files.get", get_file);
  route("PUT", "node.files.put", put_file);
  route("DELETE", "node.files.delete", delete_file);
}

}  // namespace nodus::executor
