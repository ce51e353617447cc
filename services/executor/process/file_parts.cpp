// An upload by parts: PUT with upload=NAME and Content-Range, one after the other; the last one puts the file
// in its place. What a lost connection had brought counts: the next part begins where the upload stands.
#include <fmt/format.h>

#include "services/executor/process/file_routes.hpp"

namespace nodus::executor {
namespace json = boost::json;
using boost::asio::awaitable;
namespace {

std::string upload_key(const FileRequest& file) {
  return file.slot->slot().key.text() + "/upload/" + file.query.upload;
}

std::string progress(const FileRequest& file, uint64_t offset) {
  json::object answer;
  put_bytes(answer, "path", file.query.options.path);
  answer["upload"] = file.query.upload;
  answer["offset"] = offset;
  return json::serialize(answer);
}

Error unknown_upload() {
  return {Code::kNotFound,
          "UploadUnknown",
          "There is no such upload (any more); begin again with byte 0.",
          {},
          {},
          {}};
}

Error other_offset(uint64_t offset) {
  Error error{Code::kConflict, "UploadOffset", "", {}, {}, {}};
  error.message = fmt::format("The next part begins at byte {}.", offset);
  error.details_json = fmt::format("{{\"offset\":{}}}", offset);
  return error;
}

Error malformed(const char* message) {
  return {Code::kBadRequest, "BadRequest", message, {}, {}, {}};
}

Result<PartRange> read_part_range(const http::Request& request, uint64_t most) {
  const auto range = parse_content_range(request.headers.get("Content-Range").value_or(""));
  if (!range)
    return std::unexpected(
        malformed("A part has a Content-Range such as \"bytes 0-1023/4096\" or \"bytes 0-1023/*\"."));
  const auto length = parse_number(request.headers.get("Content-Length").value_or(""));
  if (length && static_cast<uint64_t>(*length) != range->length)
    return std::unexpected(malformed("Content-Length is not the length that Content-Range says."));
  if (range->length > most) return std::unexpected(file_too_large());
  return *range;
}

// Opens the upload's worker: a new one, or the one that waits for this part.
awaitable<Result<std::shared_ptr<Upload>>> open_upload(const RouteContext& context, FileRequest& file,
                                                       const std::string& key, const PartRange& range) {
  auto upload = context.desk->upload(key);
  if (!upload) {
    if (range.offset != 0) co_return std::unexpected(unknown_upload());
    file.query.options.most = UINT64_MAX;
    auto begun = context.desk->begin_upload(key, file.slot, file.query.options);
    if (!begun) co_return begun;
    if (auto opened = co_await open_stream(context, file); !opened) {
      context.desk->drop_upload(key);
      co_return std::unexpected(opened.error());
    }
    file.turn.reset();  // its worker is counted with the uploads
    (void)co_await file.stream->begin_put(file.query.options);
    auto ready = co_await file.stream->sync();  // a refusal comes before the first part is taken in
    if (!ready) {
      context.desk->drop_upload(key);
      co_return std::unexpected(ready.error());
    }
    co_return *begun;
  }
  const bool same = upload->options.path == file.query.options.path &&
                    upload->options.expected_sha256 == file.query.options.expected_sha256;
  if (!same || upload->offset != range.offset) {
    context.desk->keep_upload(upload, upload->fd);
    if (!same)
      co_return std::unexpected(malformed("This upload was begun for another path or expectedSHA256."));
    co_return std::unexpected(other_offset(upload->offset));
  }
  auto stream = co_await FileStream::adopt(std::exchange(upload->fd, -1), file.slot->slot());
  if (!stream) {
    context.desk->drop_upload(key);
    co_return std::unexpected(unknown_upload());
  }
  file.stream = std::move(*stream);
  co_return upload;
}

// Moves the body of one part. An error of the client's side keeps the upload, one of the worker's ends it.
awaitable<std::optional<Error>> move_part(const RouteContext& context, http::Exchange& exchange,
                                          FileRequest& file, Upload& upload, const PartRange& range) {
  uint64_t got = 0;
  for (;;) {
    auto part = co_await exchange.read_some();
    if (!part) co_return part.error();
    if (part->empty()) break;
    if (part->size() > range.length - got) co_return malformed("The part is longer than its Content-Range.");
    if (closing(context, *file.slot)) co_return slot_closing();
    got += part->size();
    if (!co_await file.stream->write(*part)) co_return std::nullopt;  // sync() or commit() says why
    upload.offset += part->size();
  }
  if (got != range.length) co_return malformed("The part is shorter than its Content-Range.");
  co_return std::nullopt;
}

}  // namespace

awaitable<void> put_part(const RouteContext& context, http::Exchange& exchange, FileRequest& file) {
  const auto range = read_part_range(exchange.request(), context.options.file_bytes);
  if (!range) co_return co_await refuse(exchange, range.error());
  const std::string key = upload_key(file);
  auto claimed = co_await context.desk->claim(key);
  if (!claimed) co_return co_await refuse(exchange, claimed.error());
  if (const auto done = context.desk->done(key)) {  // the answer to the last part was lost
    if (done->request != file.query.options.path) co_return co_await refuse(exchange, unknown_upload());
    co_return co_await exchange.respond(http::json(200, done->answer));
  }
  auto upload = co_await open_upload(context, file, key, *range);
  if (!upload) co_return co_await refuse(exchange, upload.error());
  if (auto broken = co_await move_part(context, exchange, file, **upload, *range)) {
    context.desk->keep_upload(*upload, file.stream->release());
    co_return co_await refuse(exchange, *broken);
  }
  const bool last = range->total && (*upload)->offset == *range->total;
  auto reply = last ? co_await file.stream->commit(*range->total, file.query.content_sha256)
                    : co_await file.stream->sync();
  if (!reply) {
    context.desk->drop_upload(key);
    co_return co_await refuse(exchange, reply.error());
  }
  if (!last) {
    context.desk->keep_upload(*upload, file.stream->release());
    co_return co_await exchange.respond(http::json(202, progress(file, (*upload)->offset)));
  }
  const std::string answer = written_answer(file.query.options.path, *reply);
  context.desk->remember(key, {file.query.options.path, reply->sha256, answer});
  context.desk->drop_upload(key);
  co_await exchange.respond(http::json(200, answer));
}

awaitable<void> tell_upload(const RouteContext& context, http::Exchange& exchange, FileRequest& file) {
  const std::string key = upload_key(file);
  auto claimed = co_await context.desk->claim(key);
  if (!claimed) co_return co_await refuse(exchange, claimed.error());
  if (const auto done = context.desk->done(key); done && done->request == file.query.options.path)
    co_return co_await exchange.respond(http::json(200, done->answer));
  const auto upload = context.desk->upload(key);
  if (!upload) co_return co_await refuse(exchange, unknown_upload());
  context.desk->keep_upload(upload, upload->fd);
  co_await exchange.respond(http::json(202, progress(file, upload->offset)));
}

awaitable<void> end_upload(const RouteContext& context, http::Exchange& exchange, FileRequest& file) {
  const std::string key = upload_key(file);
  auto claimed = co_await context.desk->claim(key);
  if (!claimed) co_return co_await refuse(exchange, claimed.error());
  if (const auto upload = context.desk->upload(key)) {
    context.desk->keep_upload(upload, upload->fd);
    context.desk->drop_upload(key);
  }
  co_await exchange.respond(http::json(200, progress(file, 0)));
}

}  // namespace nodus::executor
