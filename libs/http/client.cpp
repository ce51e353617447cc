#include "libs/http/client.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>

#include "libs/base/check.hpp"

namespace nodus::http {

namespace {

using Steady = std::chrono::steady_clock;

// One call as libcurl's callbacks see it.
struct Call {
  const ClientRequest& request;
  Response response{};
  bool good = false;       // a 2xx
  bool too_large = false;  // the collected answer
  bool ended = false;      // on_body said so
  bool idle = false;       // no byte for too long
  bool cancelled = false;
  curl_off_t moved = 0;
  Steady::time_point moved_at = Steady::now();
};

size_t take_header(char* text, size_t, size_t size, void* user) {
  auto& call = *static_cast<Call*>(user);
  std::string_view line(text, size);
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {
    call.response.headers = {};  // of a 100 before the answer
    const size_t space = line.find(' ');
    call.good = space != std::string_view::npos && line.substr(space + 1).starts_with('2');
  } else if (line.empty()) {
    if (call.good && call.request.on_head) call.request.on_head(call.response.headers);
  } else if (const size_t colon = line.find(':'); colon != std::string_view::npos) {
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
    call.response.headers.add(line.substr(0, colon), value);
  }
  return size;
}

struct Answering {
  Call& call;
  CURL* curl;
};

size_t take_body(char* text, size_t, size_t size, void* user) {
  auto& [call, curl] = *static_cast<Answering*>(user);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  if (call.request.on_body && status >= 200 && status < 300) {
    call.ended = !call.request.on_body({text, size});
    return call.ended ? 0 : size;
  }
  if (call.response.body.size() + size > call.request.response_limit) {
    call.too_large = true;
    return 0;
  }
  call.response.body.append(text, size);
  return size;
}

size_t give_body(char* into, size_t, size_t space, void* user) {
  const size_t given = static_cast<Call*>(user)->request.read_body(into, space);
  return given <= space ? given : size_t{CURL_READFUNC_ABORT};
}

// libcurl calls it about once a second, and whenever bytes move.
int watch(void* user, curl_off_t, curl_off_t down, curl_off_t, curl_off_t up) {
  auto& call = *static_cast<Call*>(user);
  if (down + up != call.moved) {
    call.moved = down + up;
    call.moved_at = Steady::now();
  }
  call.idle = call.request.idle_time > Millis(0) && Steady::now() - call.moved_at > call.request.idle_time;
  call.cancelled = call.request.cancelled && call.request.cancelled();
  return call.idle || call.cancelled ? 1 : 0;
}

Error client_error(Code code, std::string reason, std::string message) {
  return Error{code, std::move(reason), std::move(message), {}, {}, ""};
}

Error error_of(CURLcode code, CURL* curl, const Call& call) {
  const char* text = curl_easy_strerror(code);
  const auto lost = [&] {
    return client_error(Code::kUnavailable, "ConnectionLost",
                        fmt::format("The connection was lost: {}.", text));
  };
  const auto failed = [&] {
    return client_error(Code::kUnavailable, "ConnectionFailed",
                        fmt::format("No connection could be made: {}.", text));
  };
  const auto timed_out = [&] {
    return client_error(Code::kDeadlineExceeded, "RequestTimedOut", "There was no answer in time.");
  };
  if (call.too_large)
    return client_error(Code::kTooLarge, "ResponseTooLarge",
                        fmt::format("The answer is larger than {} bytes.", call.request.response_limit));
  if (call.idle) return timed_out();
  if (call.cancelled)
    return client_error(Code::kUnavailable, "Cancelled", "The call was ended by its caller.");
  long sent = 0;
  curl_easy_getinfo(curl, CURLINFO_REQUEST_SIZE, &sent);
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return sent > 0 ? timed_out() : failed();
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return client_error(Code::kBadRequest, "UrlInvalid",
                          fmt::format("\"{}\" is not an HTTP URL.", call.request.url));
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
      return failed();
    case CURLE_ABORTED_BY_CALLBACK:
      return client_error(Code::kBadRequest, "BodyUnreadable", "The request's body could not be read.");
    default:
      return sent > 0 ? lost() : failed();
  }
}

}  // namespace

struct Client::State {
  CURL* curl = nullptr;
  ~State() { curl_easy_cleanup(curl); }
};

Client::Client() : state_(std::make_unique<State>()) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  state_->curl = curl_easy_init();
  CHECK(state_->curl, "libcurl has no memory");
}

Client::~Client() = default;

namespace {

void set_method_and_body(CURL* curl, const ClientRequest& request) {
  if (request.method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  } else if (request.read_body) {
    curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, give_body);
    if (request.body_size) curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, curl_off_t{*request.body_size});
  } else if (!request.body.empty() || request.method == "POST" || request.method == "PUT" ||
             request.method == "PATCH") {
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.data());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  }
  if (request.method != "HEAD") curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
}

curl_slist* header_list(const ClientRequest& request) {
  curl_slist* list = nullptr;
  for (const auto& [name, value] : request.headers.all())
    list = curl_slist_append(list, (value.empty() ? name + ";" : name + ": " + value).c_str());
  // Without these libcurl would name a form's type, and chunk every stream.
  if (!request.headers.get("Content-Type")) list = curl_slist_append(list, "Content-Type:");
  if (request.read_body && !request.body_size) list = curl_slist_append(list, "Transfer-Encoding: chunked");
  return list;
}

}  // namespace

Result<Response> Client::call(const ClientRequest& request) {
  CURL* curl = state_->curl;
  curl_easy_reset(curl);  // keeps the connections
  Call call{request};
  Answering answering{call, curl};
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");  // what is asked for is ours, never through a proxy of the shell
  curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(curl, CURLOPT_TCP_NODELAY, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXAGE_CONN, 50L);  // s; the server closes after 75 s without a request
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_time.count()));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(request.total_time.count()));
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &call);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answering);
  curl_easy_setopt(curl, CURLOPT_READDATA, &call);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, watch);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &call);
  set_method_and_body(curl, request);
  curl_slist* headers = header_list(request);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  const CURLcode code = curl_easy_perform(curl);
  curl_slist_free_all(headers);
  if (code != CURLE_OK && !call.ended) return std::unexpected(error_of(code, curl, call));
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  call.response.status = static_cast<int>(status);
  return std::move(call.response);
}

}  // namespace nodus::http
