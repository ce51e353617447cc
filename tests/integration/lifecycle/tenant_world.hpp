// Lifecycle with two organizations on a real PostgreSQL, served on a port: what an API client sees. No other
// service is there, so a start stays Pending.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "libs/eventlog/postgres_log.hpp"
#include "libs/http/server.hpp"
#include "services/lifecycle/adapters/api.hpp"
#include "services/lifecycle/adapters/audit.hpp"
#include "services/lifecycle/adapters/change_feed.hpp"
#include "services/lifecycle/adapters/directory_output_store.hpp"
#include "services/lifecycle/adapters/environment.hpp"
#include "services/lifecycle/adapters/limits.hpp"
#include "services/lifecycle/adapters/open_streams.hpp"
#include "services/lifecycle/adapters/postgres_catalog.hpp"
#include "services/lifecycle/adapters/tenant_keeper.hpp"
#include "services/lifecycle/adapters/tenants.hpp"

namespace nodus::lifecycle {

class AnyImage final : public Images {
 public:
  Result<std::string> resolve(const std::string&) override { return "sha256:abc"; }
};

struct WorldOptions {
  LimitOptions limits;
  AuditOptions audit;
  Quotas quotas;
};

class TenantWorld {
 public:
  explicit TenantWorld(const WorldOptions& options = {});
  ~TenantWorld() { feed.close(); }
  // With other handlers, or the real ones; once, before the first call.
  void serve(std::vector<PublicRoute> table = public_routes());

  // An organization with project "web" and one key for each role, named as the role;
  // secret_of("acme/viewer").
  void make_organization(const std::string& name);
  std::string make_key(const std::string& org, const std::string& name, const std::string& role,
                       const std::string& project = "", std::optional<Instant> expires_at = {});
  const std::string& secret_of(const std::string& key) const { return secrets_.at(key); }

  // A path below /apis/nodus.dev/v1, or a whole one; `secret` "": no Authorization field at all.
  http::Response call(const std::string& secret, const std::string& method, const std::string& path,
                      const std::string& body = "");
  http::Response create(const std::string& secret, const std::string& name,
                        const std::string& project = "web");
  int64_t number(const std::string& sql);  // the one number that a query answers
  int port() const { return server_.port(); }

  ManualClock clock;
  AnyImage images;
  SealedEnvironment environment;
  struct Outputs {  // gone with the world
    Outputs();
    ~Outputs() { std::filesystem::remove_all(directory); }
    std::filesystem::path directory;
    std::unique_ptr<OutputStore> store;
  } outputs;
  pg::Pool pool;
  std::unique_ptr<eventlog::EventLog> log;
  eventlog::Batcher batcher;
  PostgresCatalog catalog;
  Sandboxes sandboxes;
  Keys keys;
  Tenants tenants;
  Limits limits;
  AuditLog audit;
  OpenStreams open_streams;
  TenantKeeper keeper;
  http::Waiters waiters;
  ChangeFeed feed;
  Api api;

 private:
  std::map<std::string, std::string> secrets_;
  http::Server server_;
};

std::string reason_of(const http::Response& response);  // of a Status; "" for anything else
std::string string_at(const http::Response& response, std::string_view pointer);

}  // namespace nodus::lifecycle
