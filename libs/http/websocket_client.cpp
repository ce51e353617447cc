#include "libs/http/websocket_client.hpp"

#include <curl/curl.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "libs/base/random.hpp"
#include "libs/http/chunked.hpp"
#include "libs/http/client.hpp"
#include "libs/http/head.hpp"
#include "libs/http/websocket_frame.hpp"

namespace nodus::http {

namespace {
using websocket::Opcode;
using Clock = std::chrono::steady_clock;
constexpr size_t kHeadBytes = 64 * 1024, kStatusBytes = 1024 * 1024, kReadBytes = 64 * 1024;

std::unexpected<Error> lost(std::string why) {
  return fail(Code::kUnavailable, "ConnectionLost", "The connection to the server broke off: " + why + ".");
}
std::unexpected<Error> timed_out() {
  return fail(Code::kDeadlineExceeded, "RequestTimedOut", "The server did not answer in time.");
}

struct Place {
  std::string url;   // with http or https
  std::string host;  // and port, as for the Host field
  std::string target;
};

Result<Place> parse_place(std::string url) {
  if (url.starts_with("ws")) url.replace(0, 2, "http");
  Place place{url, "", ""};
  CURLU* parts = curl_url();
  const auto part = [&](CURLUPart which) {
    char* text = nullptr;
    std::string value;
    if (curl_url_get(parts, which, &text, 0) == CURLUE_OK) value = text;
    curl_free(text);
    return value;
  };
  const bool right = curl_url_set(parts, CURLUPART_URL, url.c_str(), 0) == CURLUE_OK;
  if (right) {
    const std::string port = part(CURLUPART_PORT), query = part(CURLUPART_QUERY);
    place.host = part(CURLUPART_HOST) + (port.empty() ? "" : ":" + port);
    place.target = part(CURLUPART_PATH) + (query.empty() ? "" : "?" + query);
  }
  curl_url_cleanup(parts);
  if (right && url.starts_with("http")) return place;
  return fail(Code::kBadRequest, "BadRequest", "This is not an http, https, ws or wss URL.");
}
}  // namespace

struct WebSocketClient::State {
  explicit State(const WebSocketTarget& target)
      : silence(target.silence), decoder(false, target.message_bytes), curl(curl_easy_init()) {}
  ~State() { curl_easy_cleanup(curl); }

  Result<void> connect(const WebSocketTarget& target);
  Result<void> shake_hands(const WebSocketTarget& target, const Place& place);
  Result<void> check_answer(const WebSocketTarget& target, const ParsedAnswer& answer,
                            const std::string& key);
  Error refusal(const ParsedAnswer& answer, Clock::time_point until);
  Result<bool> receive(Clock::time_point until);  // false: nothing came in time
  Result<void> send_all(std::string_view bytes, Clock::duration patience);
  Result<void> send_frame(Opcode opcode, std::string_view payload);
  void answer_ping(std::string_view payload);
  Result<std::optional<std::string>> lose(std::string why) {
    is_lost = true;
    return lost(std::move(why));
  }

  const Millis silence;
  websocket::Decoder decoder;
  CURL* curl;
  curl_socket_t fd = -1;
  std::string protocol;
  Headers headers;
  std::string received;
  Clock::time_point heard = Clock::now();
  std::atomic<uint16_t> close_code = 0;
  std::atomic<bool> is_lost = false, close_sent = false;

  std::mutex curl_mutex;   // the calls on the handle
  std::mutex write_mutex;  // a frame goes out whole
  std::mutex pong_mutex;
  std::optional<std::string> pong;  // for the writer that is under way
};

Result<void> WebSocketClient::State::connect(const WebSocketTarget& target) {
  auto place = parse_place(target.url);
  if (!place) return std::unexpected(place.error());
  curl_easy_setopt(curl, CURLOPT_URL, place->url.c_str());
  curl_easy_setopt(curl, CURLOPT_CONNECT_ONLY, 1L);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_TCP_NODELAY, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(target.connect_time.count()));
  const CURLcode code = curl_easy_perform(curl);
  if (code == CURLE_OK) curl_easy_getinfo(curl, CURLINFO_ACTIVESOCKET, &fd);
  if (code != CURLE_OK || fd < 0)
    return fail(Code::kUnavailable, "ConnectionFailed",
                fmt::format("The server cannot be reached: {}.", curl_easy_strerror(code)));
  return shake_hands(target, *place);
}

Result<void> WebSocketClient::State::shake_hands(const WebSocketTarget& target, const Place& place) {
  const auto until = Clock::now() + target.answer_time;
  const std::string key = to_base64(random_bytes(16));
  std::string text = fmt::format(
      "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {}\r\n",
      place.target, place.host, key);
  for (size_t i = 0; i < target.protocols.size(); ++i)
    text += (i ? ", " : "Sec-WebSocket-Protocol: ") + target.protocols[i];
  if (!target.protocols.empty()) text += "\r\n";
  for (const auto& [name, value] : target.headers.all()) text += name + ": " + value + "\r\n";
  if (auto sent = send_all(text + "\r\n", target.answer_time); !sent) return sent;
  size_t scanned = 0;
  HeadEnd end;
  while ((end = find_head_end(received, scanned)) == HeadEnd::kNotYet && received.size() < kHeadBytes) {
    auto more = receive(until);
    if (!more) return std::unexpected(more.error());
    if (!*more) return timed_out();
  }
  auto answer = end == HeadEnd::kFound ? check_answer_block(std::string_view(received).substr(0, scanned))
                                       : Result<ParsedAnswer>(lost("its answer is malformed"));
  if (!answer) return lost("its answer is malformed");
  received.erase(0, scanned);
  if (answer->status != 101) return std::unexpected(refusal(*answer, until));
  return check_answer(target, *answer, key);
}

Result<void> WebSocketClient::State::check_answer(const WebSocketTarget& target, const ParsedAnswer& answer,
                                                  const std::string& key) {
  protocol = answer.headers.get("Sec-WebSocket-Protocol").value_or("");
  headers = answer.headers;
  const bool offered =
      protocol.empty() || std::ranges::find(target.protocols, protocol) != target.protocols.end();
  if (answer.headers.get("Sec-WebSocket-Accept") != websocket::accept_of(key) || !offered ||
      answer.headers.get("Sec-WebSocket-Extensions"))
    return lost("it does not speak WebSocket as asked");
  return {};
}

// The Status in the body of an answer other than 101.
Error WebSocketClient::State::refusal(const ParsedAnswer& answer, Clock::time_point until) {
  Response response{answer.status, answer.headers, ""};
  ChunkDecoder chunks;
  const auto whole = [&] {
    if (answer.framing == Framing::kLength) return received.size() >= answer.length;
    if (answer.framing == Framing::kNone) return true;
    const size_t taken = chunks.feed(received, response.body, kStatusBytes);
    received.erase(0, taken);
    return chunks.done() || chunks.malformed();
  };
  while (!whole() && received.size() + response.body.size() < kStatusBytes)
    if (!receive(until).value_or(false)) break;
  if (answer.framing == Framing::kLength) response.body = received.substr(0, answer.length);
  return parse_status(response);
}

Result<bool> WebSocketClient::State::receive(Clock::time_point until) {
  const size_t before = received.size();
  received.resize(before + kReadBytes);
  for (;;) {
    size_t got = 0;
    CURLcode code;
    {
      std::lock_guard hold(curl_mutex);
      code = curl_easy_recv(curl, received.data() + before, kReadBytes, &got);
    }
    received.resize(before + (code == CURLE_OK ? got : 0));
    if (code == CURLE_OK && got > 0) {
      heard = Clock::now();
      return true;
    }
    if (code == CURLE_OK) return lost("it closed the connection");
    if (code != CURLE_AGAIN) return lost(curl_easy_strerror(code));
    const auto left = std::chrono::ceil<Millis>(until - Clock::now()).count();
    if (left <= 0) return false;
    pollfd ready{fd, POLLIN, 0};
    poll(&ready, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
    received.resize(before + kReadBytes);
  }
}

Result<void> WebSocketClient::State::send_all(std::string_view bytes, Clock::duration patience) {
  for (auto until = Clock::now() + patience; !bytes.empty();) {
    size_t sent = 0;
    CURLcode code;
    {
      std::lock_guard hold(curl_mutex);
      code = curl_easy_send(curl, bytes.data(), bytes.size(), &sent);
    }
    if (code == CURLE_OK) {
      bytes.remove_prefix(sent);
      until = Clock::now() + patience;
      continue;
    }
    const auto left = std::chrono::ceil<Millis>(until - Clock::now()).count();
    if (code != CURLE_AGAIN || left <= 0 || is_lost)
      return lost(code == CURLE_AGAIN ? "it takes nothing more" : curl_easy_strerror(code));
    pollfd ready{fd, POLLOUT, 0};
    poll(&ready, 1, static_cast<int>(std::min<int64_t>(left, 1'000)));
  }
  return {};
}

Result<void> WebSocketClient::State::send_frame(Opcode opcode, std::string_view payload) {
  std::lock_guard hold(write_mutex);
  auto sent = send_all(websocket::encode_frame(opcode, payload, random_bytes(4)), silence);
  std::optional<std::string> waiting;
  {
    std::lock_guard hold_pong(pong_mutex);
    waiting = std::exchange(pong, std::nullopt);
  }
  if (sent && waiting)
    sent = send_all(websocket::encode_frame(Opcode::kPong, *waiting, random_bytes(4)), silence);
  return sent;
}

// Does not wait for a write that waits for the server: the reader must go on.
void WebSocketClient::State::answer_ping(std::string_view payload) {
  {
    std::lock_guard hold(pong_mutex);
    pong = std::string(payload);
  }
  std::unique_lock hold(write_mutex, std::try_to_lock);
  if (!hold) return;
  std::optional<std::string> waiting;
  {
    std::lock_guard hold_pong(pong_mutex);
    waiting = std::exchange(pong, std::nullopt);
  }
  if (waiting && !close_sent)
    (void)send_all(websocket::encode_frame(Opcode::kPong, *waiting, random_bytes(4)), silence);
}

WebSocketClient::WebSocketClient(std::unique_ptr<State> state) : state_(std::move(state)) {}
WebSocketClient::~WebSocketClient() = default;

Result<std::unique_ptr<WebSocketClient>> WebSocketClient::open(const WebSocketTarget& target) {
  static const CURLcode once = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)once;
  auto state = std::make_unique<State>(target);
  if (auto connected = state->connect(target); !connected) return std::unexpected(connected.error());
  return std::unique_ptr<WebSocketClient>(new WebSocketClient(std::move(state)));
}

const std::string& WebSocketClient::protocol() const {
  return state_->protocol;
}
const Headers& WebSocketClient::headers() const {
  return state_->headers;
}
int WebSocketClient::descriptor() const {
  return state_->fd;
}
uint16_t WebSocketClient::close_code() const {
  return state_->close_code;
}

Result<std::optional<std::string>> WebSocketClient::read(Millis patience) {
  State& state = *state_;
  for (const auto until = Clock::now() + patience;;) {
    if (state.is_lost) return lost("it is closed");
    std::string_view bytes = state.received;
    auto event = state.decoder.next(bytes);
    state.received.erase(0, state.received.size() - bytes.size());
    if (event && event->opcode == Opcode::kPing) {
      state.answer_ping(event->payload);
    } else if (event && event->opcode == Opcode::kClose) {
      state.close_code = event->code;
      close(websocket::kNormal);
      state.is_lost = true;
      return fail(Code::kUnavailable, "Closed", "The server has closed the WebSocket. " + event->payload);
    } else if (event && event->opcode != Opcode::kPong) {
      return std::move(event->payload);
    } else if (state.decoder.fault()) {
      close(state.decoder.fault());
      return state.lose("it sent what is not WebSocket");
    } else if (!event) {
      auto more = state.receive(std::min(until, state.heard + state.silence));
      if (!more) return state.lose(more.error().message);
      if (!*more && Clock::now() >= state.heard + state.silence) return state.lose("it is silent");
      if (!*more) return std::optional<std::string>();
    }
  }
}

Result<void> WebSocketClient::write(std::string_view message) {
  if (state_->close_sent || state_->is_lost) return lost("it is closed");
  return state_->send_frame(Opcode::kBinary, message);
}

void WebSocketClient::close(uint16_t code) {
  if (state_->close_sent.exchange(true) || state_->is_lost) return;
  const std::string payload{static_cast<char>(code >> 8), static_cast<char>(code & 0xff)};
  (void)state_->send_frame(Opcode::kClose, payload);
}

}  // namespace nodus::http
