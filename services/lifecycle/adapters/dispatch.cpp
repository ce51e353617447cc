#include "services/lifecycle/adapters/dispatch.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <exception>
#include <iterator>
#include <memory>
#include <utility>

#include "libs/base/check.hpp"
#include "libs/telemetry/metrics.hpp"
#include "services/lifecycle/adapters/api.hpp"
#include "services/lifecycle/adapters/audit.hpp"
#include "services/lifecycle/adapters/limits.hpp"
#include "services/lifecycle/adapters/open_streams.hpp"
#include "services/lifecycle/app/quotas.hpp"

namespace nodus::lifecycle {

using boost::asio::awaitable;

namespace {

struct Counters {
  metrics::Counter strangers =
      metrics::counter("nodus_lifecycle_unauthenticated_total", "Requests without a key that is in force.");
  metrics::Counter limited =
      metrics::counter("nodus_lifecycle_rate_limited_total", "Requests beyond their key's limits.");
  metrics::Counter unwritten = metrics::counter("nodus_lifecycle_audit_refusals_unwritten_total",
                                                "Refusals not in the audit log, which was full.");
};

Counters& counters() {
  static Counters made;
  return made;
}

bool allows(const std::string& role, Right right) {
  switch (right) {
    case Right::kNobody:
    case Right::kRead:
      return true;
    case Right::kUse:
      return role == "developer" || role == "admin";
    case Right::kBill:
      return role == "billing" || role == "admin";
    case Right::kAdmin:
      return role == "admin";
  }
  return false;
}

// One request on its way to its handler.
class Call {
 public:
  Call(Api& api, const PublicRoute& row, http::Exchange& exchange)
      : api_(api), row_(row), exchange_(exchange), at_(api.clock.now()) {}
  ~Call() { exchange_.before_answer(nullptr); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // The verdict, from memory alone; nothing: ask admit() on a worker.
  std::optional<Result<void>> admit_now() {
    try {
      return advance(false);
    } catch (const std::exception& fault) {
      return fail(Code::kInternal, "AdmissionFailed", fault.what());
    }
  }
  // Unauthorized, TooManyRequests, NotFound (another organization's, or none), Forbidden (too small a role),
  // OrganizationSuspended, AuditUnavailable: in this order. Blocks.
  Result<void> admit() { return *advance(true); }
  const http::Identity& identity() const { return identity_; }

  // What came of it is in the audit log before the client can know: written when the answer begins, or in
  // conclude() when there is none. A stream that may last for hours has a row when it begins and one when it
  // ends.
  void decided(const Result<void>& verdict) {
    verdict_ = &verdict;
    if (!row_.lasting || !verdict)
      exchange_.before_answer([this](int status) { write_down(status); });
    else if (audited())
      add_record(0, "", false);
  }
  void conclude() {
    exchange_.before_answer(nullptr);
    if (verdict_ != nullptr) write_down(exchange_.status());
  }

 private:
  std::optional<Result<void>> advance(bool may_block);
  Result<void> judge() const;
  bool audited() const { return row_.right != Right::kNobody && row_.effect != Effect::kReads; }
  const std::string* param(const char* name) const {
    const auto& params = exchange_.request().params;
    const auto it = params.find(name);
    return it == params.end() ? nullptr : &it->second;
  }
  void write_down(int status);
  void add_record(int status, const std::string& reason, bool refusal) const;

  Api& api_;
  const PublicRoute& row_;
  http::Exchange& exchange_;
  const Instant at_;
  std::optional<KeyHolder> holder_;
  http::Identity identity_;
  Limits::Open open_;
  const Result<void>* verdict_ = nullptr;  // until it is written down
};

std::optional<Result<void>> Call::advance(bool may_block) {
  if (row_.right == Right::kNobody) return Result<void>{};
  if (!holder_) {
    const auto authorization = exchange_.request().headers.get("Authorization").value_or("");
    auto holder = api_.keys.known(authorization);
    if (!holder && !may_block) return std::nullopt;
    if (!holder) {
      auto found = api_.keys.find(authorization);
      if (!found && found.error().code == Code::kUnauthenticated) counters().strangers.add();
      if (!found) return std::unexpected(std::move(found.error()));
      holder = std::move(*found);
    }
    auto open = api_.limits.admit(*holder);
    if (!open) counters().limited.add();
    if (!open) return std::unexpected(std::move(open.error()));
    open_ = std::move(*open);
    holder_ = std::move(*holder);
    identity_ = {holder_->org, ProjectId(), holder_->key_id, holder_->role};
    exchange_.set_lane(holder_->org.str());
  }
  if (const auto* name = param("project"); name && identity_.project.empty()) {
    if (auto known = api_.keys.known_project(*holder_, *name)) {
      identity_.project = std::move(*known);
    } else {
      if (!may_block) return std::nullopt;
      auto found = api_.keys.project(*holder_, *name);
      if (!found) return std::unexpected(std::move(found.error()));
      identity_.project = std::move(*found);
    }
  }
  return judge();
}

Result<void> Call::judge() const {
  const auto* org = param("org");
  if (org && *org != holder_->org.str())
    return fail(Code::kNotFound, "NotFound", "There is no organization named \"" + *org + "\".");
  if (!allows(holder_->role, row_.right))
    return fail(
        Code::kForbidden, "Forbidden",
        "The role of this key, " + holder_->role + ", does not allow this. Use a key with another role.");
  if (org && !holder_->bound_project.empty())
    return fail(
        Code::kForbidden, "Forbidden",
        "This key is for project \"" + holder_->bound_project + "\" only. Use one of the organization.");
  if (holder_->suspended && row_.effect == Effect::kChanges)
    return std::unexpected(organization_suspended(holder_->suspended_reason));
  if (audited() && !api_.audit.room())
    return std::unexpected(Error{Code::kUnavailable,
                                 "AuditUnavailable",
                                 "The audit log cannot be written now, so nothing may be changed. Try again.",
                                 {},
                                 2,
                                 {}});
  return {};
}

void Call::add_record(int status, const std::string& reason, bool refusal) const {
  if (refusal && !api_.audit.room()) return counters().unwritten.add();
  const auto* project = param("project");
  const auto* name = param("name");
  api_.audit.add({.at = at_,
                  .id = "",
                  .org = holder_->org.str(),
                  .key_id = holder_->key_id,
                  .key_name = holder_->key_name,
                  .role = holder_->role,
                  .project = project ? *project : "",
                  .method = exchange_.request().method,
                  .route = row_.name,
                  .object = name ? *name : exchange_.about(),
                  .status = status,
                  .reason = reason,
                  .peer = exchange_.request().peer});
}

void Call::write_down(int status) {
  const Result<void>& verdict = *std::exchange(verdict_, nullptr);
  if (!holder_) return;  // a stranger, or beyond the limits: counted
  if (verdict && audited()) add_record(status, "", false);
  // Whoever tried what is not theirs is known also when they only wanted to read.
  if (!verdict && !retryable(verdict.error().code))
    add_record(http_status(verdict.error().code), verdict.error().reason, true);
}

Result<http::Response> run_plain(Api& api, const PublicRoute& row, const http::Identity& caller,
                                 const http::Request& request) {
  try {
    return row.plain(api, caller, request);
  } catch (const std::exception& fault) {
    return fail(Code::kInternal, "HandlerFailed", row.name + ": " + fault.what());
  }
}

http::Response answer(Result<http::Response> response) {
  return response ? std::move(*response) : http::status(response.error());
}

// metadata.name of what a POST made.
std::string name_of_made(const http::Request& request, const http::Response& response) {
  if (request.method != "POST" || response.status / 100 != 2) return "";
  boost::system::error_code fault;
  const auto body = boost::json::parse(response.body, fault);
  if (fault) return "";
  const auto* name = body.find_pointer("/metadata/name", fault);
  return name && name->is_string() ? std::string(name->get_string()) : "";
}

awaitable<void> serve_plain(Api& api, const PublicRoute& row, http::Exchange& exchange) {
  Call call(api, row, exchange);
  auto verdict = call.admit_now();
  Result<http::Response> response = fail(Code::kInternal, "InternalError", "");
  http::Request with_body;
  if (verdict && !*verdict) {
    response = std::unexpected(verdict->error());
  } else if (row.body_bytes == 0) {  // one visit to the workers
    response = co_await blocking<http::Response>(exchange, [&]() -> Result<http::Response> {
      if (!verdict) verdict = call.admit();
      if (!*verdict) return std::unexpected(verdict->error());
      return run_plain(api, row, call.identity(), exchange.request());
    });
  } else {
    if (!verdict) verdict = co_await blocking<void>(exchange, [&] { return call.admit(); });
    Result<std::string> body = *verdict ? co_await exchange.read_body(row.body_bytes)
                                        : Result<std::string>(std::unexpected(verdict->error()));
    if (body) {
      with_body = exchange.request();
      with_body.body = std::move(*body);
      response = co_await blocking<http::Response>(
          exchange, [&] { return run_plain(api, row, call.identity(), with_body); });
    } else {
      response = std::unexpected(std::move(body.error()));
    }
  }
  const auto answered = answer(std::move(response));
  if (const auto made = name_of_made(exchange.request(), answered); !made.empty()) exchange.annotate(made);
  if (verdict) call.decided(*verdict);
  co_await exchange.respond(answered);
  call.conclude();
}

awaitable<void> serve_stream(Api& api, const PublicRoute& row, http::Exchange& exchange) {
  Call call(api, row, exchange);
  auto verdict = call.admit_now();
  if (!verdict) verdict = co_await blocking<void>(exchange, [&] { return call.admit(); });
  call.decided(*verdict);
  if (!*verdict) {
    co_await exchange.respond(http::status(verdict->error()));
    co_return call.conclude();
  }
  std::optional<OpenStreams::Entry> open;
  if (row.right != Right::kNobody) {  // what needs no key is not cut when one ends
    auto key = exchange.request().headers.get("Authorization").value_or("");
    open.emplace(api.open_streams, api.open_streams.add(std::move(key), exchange.cutter()));
  }
  std::exception_ptr fault;
  try {
    co_await row.stream(api, call.identity(), exchange);
  } catch (...) {
    fault = std::current_exception();  // the server answers it
  }
  call.conclude();
  if (fault) std::rethrow_exception(fault);
}

}  // namespace

std::vector<PublicRoute> public_routes() {
  std::vector<PublicRoute> table;
  for (auto part :
       {object_routes(), replace_routes(), read_routes(), discovery_routes(), process_routes(), exec_routes(),
        file_routes(), bill_routes(), budget_routes(), money_routes(), tenant_routes()})
    std::ranges::move(part, std::back_inserter(table));
  return table;
}

void dispatch_routes(http::Server& server, Api& api, std::vector<PublicRoute> table) {
  for (auto& given : table) {
    CHECK((given.plain == nullptr) != (given.stream == nullptr), "{}: one handler", given.name);
    auto row = std::make_shared<const PublicRoute>(std::move(given));
    server.route({.method = row->method,
                  .pattern = row->pattern,
                  .name = row->name,
                  .handler = {},
                  .stream =
                      [&api, row](http::Exchange& e) {
                        return row->plain ? serve_plain(api, *row, e) : serve_stream(api, *row, e);
                      },
                  .body_bytes = {}});
  }
}

}  // namespace nodus::lifecycle
