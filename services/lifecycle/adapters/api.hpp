// The public API and the nodes' reports, as routes. See docs/ARCHITECTURE.md, "Contracts between programs".
#pragma once

#include <string>

#include "libs/base/clock.hpp"
#include "libs/eventlog/batcher.hpp"
#include "libs/http/server.hpp"
#include "services/lifecycle/adapters/dispatch.hpp"
#include "services/lifecycle/adapters/keys.hpp"
#include "services/lifecycle/adapters/manifest.hpp"
#include "services/lifecycle/app/output_store.hpp"
#include "services/lifecycle/app/quotas.hpp"
#include "services/lifecycle/app/sandboxes.hpp"

namespace nodus::lifecycle {

class ChangeFeed;

struct ApiOptions {
  std::string node_secret;      // never printed
  std::string identity_secret;  // never printed
  std::string metering_host;
  int metering_port = 0;
  Millis trigger_patience{1'000};  // how long a trigger waits for funded or refused
  int retry_after_s = 2;           // of SandboxStarting
  SpecTimes times;
  Quotas quotas;  // of an organization that has none of its own
  size_t file_limit_bytes = 64 * 1024 * 1024;
  size_t result_limit_bytes = 4 * 1024 * 1024;  // output in a whole result; more stays in the log
  Millis keep_alive{15'000};                    // of a silent answer
};

class AuditLog;
class Limits;
class OpenStreams;
class Tenants;

struct Api {
  Sandboxes& sandboxes;
  Catalog& catalog;
  Keys& keys;
  eventlog::Batcher& batcher;
  ChangeFeed& feed;
  OutputStore& outputs;
  http::Waiters& waiters;  // notified with the stream of every event committed here
  const Clock& clock;
  Tenants& tenants;
  Limits& limits;
  AuditLog& audit;
  OpenStreams& open_streams;
  ApiOptions options;
};

// Reports of nodes; their own tokens. `api` outlives the server. Public routes: adapters/dispatch.hpp.
void node_routes(http::Server& server, Api& api);
void activity_routes(http::Server& server, Api& api);  // what machines say of activity

// The Sandbox that the path names, in the caller's project. NotFound.
Result<Sandbox> find_sandbox(Api& api, const http::Identity& caller, const http::Request& request);

// The Sandbox as it is now; and as it would be after a dry run of a change of `before`.
Result<http::Response> sandbox_response(Api& api, int status, const Sandbox& sandbox);
http::Response dry_response(Api& api, int status, SandboxView before, Sandbox after);
http::Response answer(Result<http::Response> response);
inline constexpr size_t kManifestBytes = 256 * 1024;

// Waits until the start that was asked for is funded or refused, or patience ends.
enum class Until {
  kAnswered,  // funded or refused
  kAtRest,    // and, when it was refused, Stopped again
};
boost::asio::awaitable<Result<Sandbox>> settle(Api& api, http::Exchange& exchange, Sandbox sandbox,
                                               Until until = Until::kAnswered);
// What a trigger answers while the Sandbox does not run: the refusal, or SandboxStarting.
Error not_yet(Api& api, const Sandbox& sandbox);
Error sandbox_starting(const Api& api, std::string message);

}  // namespace nodus::lifecycle
