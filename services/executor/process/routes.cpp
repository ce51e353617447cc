#include "services/executor/process/routes.hpp"

#include <boost/json.hpp>

#include "libs/base/random.hpp"
#include "services/executor/process/exec_request.hpp"
#include "services/executor/process/route_support.hpp"

namespace nodus::executor {
namespace json = boost::json;
namespace {
using boost::asio::awaitable;
constexpr size_t kJoinedBytes = 64 * 1024;  // frames that wait together go out together
// The head of an answer waits so long for the first output or the end: on its own it wakes everybody on the
// way to the client while the command wants the processor.
constexpr Millis kHeadPatience{50};

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
awaitable<void> stream_frames(const RouteContext& context, http::Exchange& exchange, SlotPtr slot,
                              std::string uid, uint64_t offset, bool follow) {
  http::Headers headers;
  headers.set("Content-Type", "application/x-ndjson");
  const uint64_t before = context.waiters.ticket(uid);
  if (const auto command = slot->view(uid); follow && command && !command->ended && offset == 0 &&
                                            (!command->output || command->output->end() == 0))
    co_await context.waiters.wait(uid, before, kHeadPatience);
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
    if (lines.empty() && !follow) {
      co_await exchange.finish();
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

awaitable<void> start_process(const RouteContext& context, http::Exchange& exchange) {
  auto slot = find_slot(context, exchange.request());
  if (!slot) co_return co_await refuse(exchange, slot.error());
  const auto offset = parse_number(exchange.request().query_value("offset").value_or("0"));
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
  const bool follow =
      exchange.request().query_value("follow").value_or("1") != "0";  // else what there is now
  const std::string detaching = exchange.request().query_value("detach").value_or("0");
  if ((detaching != "0" && detaching != "1") || (detaching == "1" && attach)) {
    Error error{Code::kInvalid, "Invalid", "detach: 1, or not given; not with attach.", {}, {}, {}};
    co_return co_await refuse(exchange, error);
  }
  auto body = co_await exchange.read_body(kExecBodyLimit);
  if (!body) co_return co_await refuse(exchange, body.error());
  auto request = parse_exec_request(*body);
  if (!request) co_return co_await refuse(exchange, request.error());
  if (attach && !(*slot)->view(request->uid)) {
    Error error{Code::kNotFound, "ProcessUnknown", "The node does not know the command.", {}, {}, {}};
    co_return co_await refuse(exchange, error);
  }
  if (!attach) {
    // A few calls on small local files, none of them flushed: less than to hand it to another thread.
    if (auto started = (*slot)->start(*request); !started)
      co_return co_await refuse(exchange, started.error());
  }
  if (detaching == "1") {
    const json::object accepted{{"uid", request->uid}, {"process", request->name}};
    co_return co_await exchange.respond(http::json(202, json::serialize(accepted)));
  }
  co_await stream_frames(context, exchange, *slot, request->uid, static_cast<uint64_t>(*offset), follow);
}

}  // namespace

void data_path_routes(http::Server& server, Processes& processes, http::Waiters& waiters,
                      DataPathOptions options) {
  const auto context = std::make_shared<const RouteContext>(processes, waiters, std::move(options));
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
  attach_routes(server, context);
  refuse_route(server, context);
  file_routes(server, context);
}

}  // namespace nodus::executor
