// The files of a Sandbox, over HTTP.
#include <boost/json.hpp>

#include "services/executor/helper/protocol.hpp"
#include "services/executor/process/exec_request.hpp"
#include "services/executor/process/file_stream.hpp"
#include "services/executor/process/route_support.hpp"

namespace nodus::executor {
namespace json = boost::json;
namespace {
using boost::asio::awaitable;

struct FileRequest {
  SlotPtr slot;
  std::shared_ptr<void> under_way;
  std::string path;
  std::unique_ptr<FileStream> stream;
};

awaitable<Result<FileRequest>> begin_file(const RouteContext& context, http::Exchange& exchange) {
  FileRequest request;
  auto slot = find_slot(context, exchange.request());
  if (!slot) co_return std::unexpected(slot.error());
  request.slot = std::move(*slot);
  const auto path = exchange.request().query_value("path");
  if (!path || path->empty() || path->front() != '/' || path->find('\0') != path->npos ||
      path->size() > 4095) {
    Error error{Code::kInvalid, "Invalid", "path: an absolute path of at most 4,095 bytes.", {}, {}, {}};
    error.causes = {{"path", "FieldValueInvalid", "An absolute path of at most 4,095 bytes."}};
    co_return std::unexpected(std::move(error));
  }
  request.path = *path;
  auto under_way = request.slot->begin_file_request();
  if (!under_way) co_return std::unexpected(under_way.error());
  request.under_way = std::move(*under_way);
  auto stream = co_await FileStream::open(request.slot->slot());
  if (!stream) co_return std::unexpected(stream.error());
  request.stream = std::move(*stream);
  co_return std::move(request);
}

awaitable<void> get_file(const RouteContext& context, http::Exchange& exchange) {
  auto file = co_await begin_file(context, exchange);
  if (!file) co_return co_await refuse(exchange, file.error());
  auto reply = co_await file->stream->get(file->path, context.options.file_bytes);
  if (!reply) co_return co_await refuse(exchange, reply.error());
  http::Headers headers;
  headers.set("Content-Type", "application/octet-stream");
  headers.set("X-Content-Type-Options", "nosniff");
  if (!co_await exchange.begin(200, std::move(headers))) co_return;
  for (;;) {
    auto part = co_await file->stream->read();
    if (!part) co_return;  // unfinished: the client sees the answer break off
    if (part->empty()) break;
    if (!co_await exchange.write(*part)) co_return;
  }
  co_await exchange.finish();
}

Error too_large() {
  return {Code::kTooLarge, "FileTooLarge", "A file is at most 64 MiB per request.", {}, {}, {}};
}

awaitable<void> put_file(const RouteContext& context, http::Exchange& exchange) {
  const auto& request = exchange.request();
  const std::string expected = request.query_value("expectedSHA256").value_or("");
  if (request.query.contains("expectedSHA256") && !valid_sha256(expected)) {
    Error error{Code::kInvalid, "Invalid", "expectedSHA256: 64 lowercase hex digits.", {}, {}, {}};
    co_return co_await refuse(exchange, error);
  }
  const auto length = parse_number(request.headers.get("Content-Length").value_or(""));
  if (length && static_cast<uint64_t>(*length) > context.options.file_bytes)
    co_return co_await refuse(exchange, too_large());
  auto file = co_await begin_file(context, exchange);
  if (!file) co_return co_await refuse(exchange, file.error());
  const uint64_t size = length ? static_cast<uint64_t>(*length) : helper::kUnknownSize;
  auto sent = co_await file->stream->begin_put(file->path, size, expected);
  uint64_t total = 0;
  while (sent) {
    auto part = co_await exchange.read_some();
    if (!part) co_return co_await refuse(exchange, part.error());
    if (part->empty()) break;
    total += part->size();
    if (total > context.options.file_bytes) co_return co_await refuse(exchange, too_large());
    sent = co_await file->stream->write(*part);
  }
  auto reply = co_await file->stream->end_put();
  if (!reply) co_return co_await refuse(exchange, reply.error());
  json::object answer{{"path", file->path}, {"size", reply->size}, {"sha256", reply->sha256}};
  co_await exchange.respond(http::json(200, json::serialize(answer)));
}

awaitable<void> delete_file(const RouteContext& context, http::Exchange& exchange) {
  auto file = co_await begin_file(context, exchange);
  if (!file) co_return co_await refuse(exchange, file.error());
  auto reply = co_await file->stream->remove(file->path);
  if (!reply) co_return co_await refuse(exchange, reply.error());
  co_await exchange.respond(http::json(200, json::serialize(json::object{{"path", file->path}})));
}
}  // namespace

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
