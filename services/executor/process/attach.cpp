// A command that runs or has run: its streams over a WebSocket with Kubernetes' remote-command subprotocol,
// signals, cancel.
#include <signal.h>

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json.hpp>
#include <cstring>

#include "libs/http/websocket.hpp"
#include "services/executor/process/route_support.hpp"

namespace nodus::executor {
namespace json = boost::json;
namespace {
using boost::asio::awaitable;
constexpr std::string_view kVersion5 = "v5.channel.k8s.io", kVersion4 = "v4.channel.k8s.io";
constexpr size_t kMessageBytes = 1 << 20, kSmallBody = 4096;
constexpr Millis kLook{15'000};  // between two looks at whether the client is still there

enum Channel : uint8_t { kStdin = 0, kStdout = 1, kStderr = 2, kError = 3, kResize = 4, kClose = 255 };

std::string on_channel(uint8_t channel, std::string_view data) {
  std::string message(1, static_cast<char>(channel));
  return message.append(data);
}

// What a client of Kubernetes reads the exit code from, and how the command ended in our words.
std::string final_status(const CommandView& command) {
  const auto& end = command.end;
  json::object details{{"process", command.name}, {"reason", end.reason}};
  if (end.reason.empty())
    return json::serialize(json::object{{"kind", "Status"},
                                        {"apiVersion", "v1"},
                                        {"metadata", json::object()},
                                        {"status", "Success"},
                                        {"details", std::move(details)}});
  const std::string code = std::to_string(end.exit_code);
  details["causes"] = {{{"reason", "ExitCode"}, {"message", code}}};
  const std::string message =
      end.message.empty() ? "command terminated with non-zero exit code: exit status " + code : end.message;
  return json::serialize(json::object{{"kind", "Status"},
                                      {"apiVersion", "v1"},
                                      {"metadata", json::object()},
                                      {"status", "Failure"},
                                      {"reason", "NonZeroExitCode"},
                                      {"message", message},
                                      {"code", 500},
                                      {"details", std::move(details)}});
}

struct Attachment {
  const RouteContext& context;
  http::WebSocket& socket;
  std::shared_ptr<SlotProcesses> slot;
  const std::string uid;
  OutputFile::Cursor cursor;
  bool takes_stdin, wants_stdout, wants_stderr, version_5;

  awaitable<void> read_all();
  awaitable<bool> take(std::string message);
  awaitable<void> give_stdin(std::string_view data, bool last);
  void resize(std::string_view text);
  awaitable<void> write_all();
  bool wants(int stream) const { return stream == 1 ? wants_stdout : wants_stderr; }
};

// What the client says. A client that leaves ends nothing: its stdin stays open unless it closed it.
awaitable<void> Attachment::read_all() {
  for (;;) {
    auto message = co_await socket.read();
    if (!message) break;
    if (!co_await take(std::move(*message))) {
      co_await socket.close(http::websocket::kProtocolError, "there is no such channel");
      // Goes on reading until the client has closed, too.
    }
  }
  context.waiters.notify(uid);  // the writer looks whether anybody is there
}

awaitable<bool> Attachment::take(std::string message) {
  if (message.empty()) co_return true;  // some clients keep a connection alive so
  const auto channel = static_cast<uint8_t>(message.front());
  const std::string_view data = std::string_view(message).substr(1);
  if (channel == kStdin) {
    if (takes_stdin && !data.empty()) co_await give_stdin(data, false);
  } else if (channel == kResize) {
    resize(data);
  } else if (channel == kClose && version_5) {
    if (takes_stdin && data == std::string_view("\0", 1)) co_await give_stdin("", true);
  } else {
    co_return false;
  }
  co_return true;
}

// Waits while the command has enough to read: the client is not read from meanwhile.
awaitable<void> Attachment::give_stdin(std::string_view data, bool last) {
  while (!socket.closed()) {
    const uint64_t ticket = context.waiters.ticket(uid);
    const auto taken = slot->write_stdin(uid, data, last);
    if (!taken) co_return;  // it was closed: as a pipe that nobody reads
    data.remove_prefix(*taken);
    if (data.empty()) co_return;
    co_await context.waiters.wait(uid, ticket, kLook);
  }
}

void Attachment::resize(std::string_view text) {
  boost::system::error_code fault;
  const auto size = json::parse(text, fault);
  if (fault || !size.is_object()) return;
  const auto side = [&](const char* name) {
    const auto* value = size.get_object().if_contains(name);
    boost::system::error_code wrong;
    const auto number = value ? value->to_number<int64_t>(wrong) : 0;
    return wrong || number < 1 || number > UINT16_MAX ? uint16_t{0} : static_cast<uint16_t>(number);
  };
  const uint16_t rows = side("Height"), columns = side("Width");
  if (rows && columns) (void)slot->resize(uid, rows, columns);
}

// Follows the output file, as the other form of the answer does; then the final Status and the close.
awaitable<void> Attachment::write_all() {
  while (!socket.closed()) {
    const uint64_t ticket = context.waiters.ticket(uid);
    const auto command = slot->view(uid);  // before the output, so that the end comes after all of it
    if (!command) break;
    OutputFrame frame;
    bool any = false;
    while (command->output && !socket.closed()) {
      const auto more = command->output->read(cursor, frame);
      if (!more)
        co_return co_await socket.close(http::websocket::kInternalError, "the output cannot be read");
      if (!*more) break;
      any = true;
      if (wants(frame.stream))
        co_await socket.write(on_channel(static_cast<uint8_t>(frame.stream), frame.data));
    }
    if (any) continue;
    if (command->ended) {
      co_await socket.write(on_channel(kError, final_status(*command)));
      break;
    }
    co_await context.waiters.wait(uid, ticket, kLook);
  }
  co_await socket.close(http::websocket::kNormal, "");
}

Result<bool> flag(const http::Request& request, const char* name) {
  const auto value = request.query_value(name).value_or("false");
  if (value == "true" || value == "1") return true;
  if (value == "false" || value == "0") return false;
  return fail(Code::kInvalid, "Invalid", std::string(name) + ": true or false.");
}

int signal_number(std::string_view name) {
  if (!name.starts_with("SIG")) return 0;
  for (int number = 1; number < 32; ++number)
    if (const char* known = sigabbrev_np(number); known && name.substr(3) == known) return number;
  return 0;
}

Result<int> parse_signal(std::string_view body) {
  boost::system::error_code fault;
  const auto root = json::parse(body, fault);
  const auto* object = fault ? nullptr : root.if_object();
  const auto* name = object ? object->if_contains("signal") : nullptr;
  if (!name || !name->is_string() || object->size() != 1)
    return fail(Code::kBadRequest, "BadRequest",
                "The body is {\"signal\":\"SIGINT\"}, with the signal's name.");
  if (const int number = signal_number(name->get_string())) return number;
  Error error{Code::kInvalid, "Invalid", "signal: a name such as SIGINT or SIGTERM.", {}, {}, {}};
  error.causes = {{"signal", "FieldValueInvalid", "A name such as SIGINT or SIGTERM."}};
  return std::unexpected(std::move(error));
}
awaitable<void> attach_process(const RouteContext& context, http::Exchange& exchange) {
  using boost::asio::experimental::awaitable_operators::operator&&;
  const auto& request = exchange.request();
  auto slot = find_slot(context, request);
  if (!slot) co_return co_await refuse(exchange, slot.error());
  const std::string uid = request.params.at("process");
  const auto offset = parse_number(request.query_value("offset").value_or("0"));
  const auto in = flag(request, "stdin"), out = flag(request, "stdout"), err = flag(request, "stderr");
  for (const auto* each : {&in, &out, &err})
    if (!*each) co_return co_await refuse(exchange, each->error());
  if (!offset) {
    Error error{Code::kInvalid, "Invalid", "offset: a number of bytes, 0 or more.", {}, {}, {}};
    co_return co_await refuse(exchange, error);
  }
  const auto command = (*slot)->view(uid);
  if (!command) {
    Error error{Code::kNotFound, "ProcessUnknown", "The node does not know the command.", {}, {}, {}};
    co_return co_await refuse(exchange, error);
  }
  http::WebSocketOptions options;
  options.protocols = {std::string(kVersion5), std::string(kVersion4)};
  options.message_bytes = kMessageBytes;
  options.ping_time = context.options.keep_alive;
  options.headers.set("X-Nodus-Process", command->name);
  auto socket = co_await exchange.upgrade(std::move(options));
  if (!socket) co_return;
  Attachment attachment{context,
                        **socket,
                        *slot,
                        uid,
                        {static_cast<uint64_t>(*offset), 0},
                        *in,
                        *out,
                        *err,
                        (*socket)->protocol() == kVersion5};
  co_await (attachment.read_all() && attachment.write_all() && (*socket)->keep_alive());
}

awaitable<void> signal_process(const RouteContext& context, http::Exchange& exchange) {
  auto slot = find_slot(context, exchange.request());
  if (!slot) co_return co_await refuse(exchange, slot.error());
  auto body = co_await exchange.read_body(kSmallBody);
  if (!body) co_return co_await refuse(exchange, body.error());
  auto signal = parse_signal(*body);
  if (!signal) co_return co_await refuse(exchange, signal.error());
  auto sent = (*slot)->signal(exchange.request().params.at("process"), *signal);
  if (!sent) co_return co_await refuse(exchange, sent.error());
  co_await exchange.respond(http::json(202, "{}"));
}

awaitable<void> cancel_process(const RouteContext& context, http::Exchange& exchange) {
  auto slot = find_slot(context, exchange.request());
  if (!slot) co_return co_await refuse(exchange, slot.error());
  auto body = co_await exchange.read_body(kSmallBody);
  if (!body) co_return co_await refuse(exchange, body.error());
  auto cancelled = (*slot)->cancel(exchange.request().params.at("process"));
  if (!cancelled) co_return co_await refuse(exchange, cancelled.error());
  co_await exchange.respond(http::json(202, "{}"));
}

}  // namespace

void attach_routes(http::Server& server, const std::shared_ptr<const RouteContext>& context) {
  const auto route = [&](const char* method, const std::string& rest, auto handler) {
    server.route(
        {.method = method,
         .pattern = "/v1/slots/{uid}/epochs/{epoch}/processes/{process}/" + rest,
         .name = "node.processes." + rest,
         .handler = {},
         .stream = [context, handler](http::Exchange& exchange) { return handler(*context, exchange); },
         .body_bytes = {}});
  };
  route("GET", "attach", attach_process);
  route("POST", "signal", signal_process);
  route("POST", "cancel", cancel_process);
}

}  // namespace nodus::executor
