// The one table of public routes, and the one place that knows who may call them. A handler never
// authenticates: it runs only for a caller whose key is in force and within its limits, whose organization
// owns the project of the path, and whose role has the row's right. All of that is known before a byte of a
// body is taken in. What changes something, and who was refused, is written to the audit log here too.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "libs/http/identity.hpp"
#include "libs/http/server.hpp"

namespace nodus::lifecycle {

struct Api;

// What a caller's role must allow. viewer: read. developer: read, use. billing: read, bill. admin: all.
enum class Right {
  kNobody,  // no key is asked for; the handler gets an empty identity
  kRead,
  kUse,
  kBill,
  kAdmin,
};

// What a call does to what it touches. Only reads are left out of the audit log; only changes are refused to
// a suspended organization. A request that wakes a Sandbox changes it, a GET of a file too.
enum class Effect { kReads, kChanges, kRemoves };

// Runs on the worker pool and may block. `request.body` is filled when the row has `body_bytes`.
using PlainHandler = Result<http::Response> (*)(Api& api, const http::Identity& caller,
                                                const http::Request& request);
// A coroutine on an I/O thread: it must not block, reads the body by itself and answers by itself.
using StreamHandler = boost::asio::awaitable<void> (*)(Api& api, const http::Identity& caller,
                                                       http::Exchange& exchange);

struct PublicRoute {
  std::string method;
  std::string pattern;  // with {project}: the key's organization must own it; with {org}: it must be it
  std::string name;     // resource.verb, e.g. sandboxes.create: in metrics, tests and the audit log
  Right right = Right::kAdmin;
  Effect effect = Effect::kChanges;
  PlainHandler plain = nullptr;  // one of the two
  StreamHandler stream = nullptr;
  size_t body_bytes = 0;  // of a plain route: longest body; 0: its body is not read
  bool lasting = false;   // may be open for hours (a command, a watch): audited when it begins, too
};

// The parts of the table; a new part is added to public_routes().
std::vector<PublicRoute> object_routes();     // create and delete
std::vector<PublicRoute> replace_routes();    // patch and PUT
std::vector<PublicRoute> read_routes();       // objects: one, many, and what changes
std::vector<PublicRoute> discovery_routes();  // groups, kinds, OpenAPI
std::vector<PublicRoute> process_routes();    // a Process: output, attach, signal, cancel
std::vector<PublicRoute> exec_routes();       // commands, handed on to the node
std::vector<PublicRoute> file_routes();       // files, likewise
std::vector<PublicRoute> bill_routes();       // forwarded to metering
std::vector<PublicRoute> budget_routes();     // Budgets: objects like the others, and metering's
std::vector<PublicRoute> money_routes();      // prices, quotes, credits, payments: forwarded likewise
std::vector<PublicRoute> tenant_routes();     // organizations, projects, keys, the audit log
std::vector<PublicRoute> public_routes();     // the whole table

// Adds every row to the server. `api` outlives the server.
void dispatch_routes(http::Server& server, Api& api, std::vector<PublicRoute> table = public_routes());

// For streaming handlers. Runs a blocking step on the worker pool; an overloaded pool is the step's error.
template <class T>
boost::asio::awaitable<Result<T>> blocking(http::Exchange& exchange, std::function<Result<T>()> step) {
  Result<T> out = fail(Code::kInternal, "InternalError", "The step did not run.");
  auto ran = co_await exchange.run_blocking([&] { out = step(); });
  if (!ran) co_return std::unexpected(std::move(ran.error()));
  co_return out;
}

}  // namespace nodus::lifecycle
