#include "services/executor/process/routes.hpp"

#include <boost/json.hpp>
#include <charconv>

#include "libs/base/random.hpp"
#include "services/executor/helper/protocol.hpp"
#include "services/executor/process/exec_request.hpp"
#include "services/executor/process/file_stream.hpp"

namespace nodus::executor {
namespace json = boost::json;
namespace {
using boost::asio::awaitable;
using SlotPtr = std::shared_ptr<SlotProcesses>;
constexpr size_t kJoinedBytes = 64 * 1024;  // frames that wait together go out together

struct Context {
  Processes& processes;
  http::Waiters& waiters;
  DataPathOptions options;
};

awaitable<void> refuse(http::Exchange& exchange, const Error& error) {
  http::Response response = http::status(error);
  response.headers.set("X-Nodus-Reason", error.reason);
  co_await exchange.respond(std::move(response));
}

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || value < 0)
    return std::nullopt;
  return value;
}

Result<SlotPtr> find_slot(const Context& context, const http::Request& request) {
  const std::string sent = request.headers.get("Authorization").value_or("");
  if (context.options.token.empty() || !equal_in_constant_time(sent, "Bearer " + context.options.token))
    return fail(Code::kUnauthenticated, "Unauthenticated", "The node's token is required.");
  const auto epoch = number(request.params.at("epoch"));
  auto slot = epoch ? context.processes.find({SandboxUid(request.params.at("uid")), *epoch}) : nullptr;
  if (!slot) return fail(Code::kConflict, "SlotNotRunning", "The Sandbox does not run here.");
  return slot;
}

// ---- commands

std::string frame_line(const OutputFrame& frame) {
  return "{\"stream\":\"" + std::string(frame.stream == 1 ? "stdout" : "stderr") +
         "\",\"offset\":" + std::to_string(frame.offset) + ",\"data\":\"" + to_base64(frame.data) + "\"}\n";
}

std::string end_line(const CommandView& command) {
  json::object end{
      {"reason", command.end.reason}, {"exitCode", command.end.exit_code}, {"message", command.end.message}};
  return json::serialize(json::object{{"end", std::move(end)}, {"process", command.name}}) + "\n";
}

// Follows the output file; a reader that is slow or leaves costs the command nothing.
awaitable<void> stream_frames(const Context& context, http::Exchange& exchange, SlotPtr slot, std::string uid,
                              uint64_t offset) {
  http::Headers headers;
  headers.set("Content-Type", "application/x-ndjson");
  if (!co_await exchange.begin(200, std::move(headers))) co_return;
  OutputFile::Cursor cursor{offset, 0};
  auto silent_since = std::chrono::steady_clock::now();
  for (;;) {
    const uint64_t ticket = context.waiters.ticket(uid);
    const auto command = slot->view(uid);  // before the output, so that the end comes after all of it
    if (!command) co_return;
    std::string lines;
    OutputFrame frame;
    while (lines.size() < kJoinedBytes && command->output) {
      auto more = command->output->read(cursor, frame);
      if (!more) co_return;  // the connection breaks off: the client asks again from where it is
      if (!*more) break;
      lines += frame_line(frame);
    }
    if (lines.empty() && command->ended) {
      const std::string end = end_line(*command);
      if (co_await exchange.write(end)) co_await exchange.finish();
      co_return;
    }
    if (lines.empty()) {
      const auto due = silent_since + context.options.keep_alive;
      const auto left = std::chrono::ceil<Millis>(due - std::chrono::steady_clock::now());
      if (left > Millis(0)) {
        co_await context.waiters.wait(uid, ticket, left);
        continue;
      }
      lines = "{}\n";
    }
    if (!co_await exchange.write(lines)) co_return;
    silent_since = std::chrono::steady_clock::now();
  }
}

awaitable<void> start_process(const Context& context, http::Exchange& exchange) {
  auto slot = find_slot(context, exchange.request());
  if (!slot) co_return co_await refuse(exchange, slot.error());
  const auto offset = number(exchange.request().query_value("offset").value_or("0"));
  if (!offset) {
    Error error{Code::kInvalid, "Invalid", "offset: a number of bytes, 0 or more.", {}, {}, {}};
    co_return co_await refuse(exchange, error);
  }
  const std::string attaching = exchange.request().query_value("attach").value_or("0");
  if (attaching != "0" && attaching != "1") {
    Error error{Code::kInvalid, "Invalid", "attach: 1, or not given.", {}, {}, {}};
    co_return co_await refuse(exchange, error);
  }
  const bool attach = attaching == "1";  // never starts it
  auto body = co_await exchange.read_body(kExecBodyLimit);
  if (!body) co_return co_await refuse(exchange, body.error());
  auto request = parse_exec_request(*body);
  if (!request) co_return co_await refuse(exchange, request.error());
  if (attach && !(*slot)->view(request->uid)) {
    Error error{Code::kNotFound, "ProcessUnknown", "The node does not know the command.", {}, {}, {}};
    co_return co_await refuse(exchange, error);
  }
  if (!attach) {
    Result<void> started;
    auto ran = co_await exchange.run_blocking([&] { started = (*slot)->start(*request); });
    if (ran) ran = std::move(started);
    if (!ran) co_return co_await refuse(exchange, ran.error());
  }
  co_await stream_frames(context, exchange, *slot, request->uid, static_cast<uint64_t>(*offset));
}

// ---- files

struct FileRequest {
  SlotPtr slot;
  std::shared_ptr<void> under_way;
  std::string path;
  std::unique_ptr<FileStream> stream;
};

awaitable<Result<FileRequest>> begin_file(const Context& context, http::Exchange& exchange) {
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

awaitable<void> get_file(const Context& context, http::Exchange& exchange) {
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

awaitable<void> put_file(const Context& context, http::Exchange& exchange) {
  const auto& request = exchange.request();
  const std::string expected = request.query_value("expectedSHA256").value_or("");
  if (request.query.contains("expectedSHA256") && !valid_sha256(expected)) {
    Error error{Code::kInvalid, "Invalid", "expectedSHA256: 64 lowercase hex digits.", {}, {}, {}};
    co_return co_await refuse(exchange, error);
  }
  const auto length = number(request.headers.get("Content-Length").value_or(""));
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

awaitable<void> delete_file(const Context& context, http::Exchange& exchange) {
  auto file = co_await begin_file(context, exchange);
  if (!file) co_return co_await refuse(exchange, file.error());
  auto reply = co_await file->stream->remove(file->path);
  if (!reply) co_return co_await refuse(exchange, reply.error());
  co_await exchange.respond(http::json(200, json::serialize(json::object{{"path", file->path}})));
}
}  // namespace

void data_path_routes(http::Server& server, Processes& processes, http::Waiters& waiters,
                      DataPathOptions options) {
  const auto context = std::make_shared<const Context>(processes, waiters, std::move(options));
  const auto route = [&](const char* method, const char* rest, const char* name, auto handler) {
    server.route(
        {.method = method,
         .pattern = std::string("/v1/slots/{uid}/epochs/{epoch}/") + rest,
         .name = name,
         .handler = {},
         .stream = [context, handler](http::Exchange& exchange) { return handler(*context, exchange); },
         .body_bytes = {}});
  };
  route("POST", "processes", "node.processes", start_process);
  route("GET", "files", "node.files.get", get_file);
  route("PUT", "files", "node.files.put", put_file);
  route("DELETE", "files", "node.files.delete", delete_file);
}

}  // namespace nodus::executor
