// What an organization's admin does: projects and keys, as Kubernetes-like objects below
// /apis/nodus.dev/v1/organizations/{org}. See docs/tenants.md.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "libs/base/names.hpp"
#include "libs/config/config.hpp"
#include "services/lifecycle/adapters/api.hpp"
#include "services/lifecycle/adapters/audit.hpp"
#include "services/lifecycle/adapters/manifest.hpp"
#include "services/lifecycle/adapters/metering_path.hpp"
#include "services/lifecycle/adapters/tenants.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

constexpr std::string_view kOrganizations = "/apis/nodus.dev/v1/organizations";
constexpr std::string_view kOwn = "/apis/nodus.dev/v1/organizations/{org}";
constexpr size_t kBodyBytes = 64 * 1024;
constexpr Micros kOverlap = std::chrono::hours(1);
constexpr Micros kMaxOverlap = std::chrono::hours(720);
constexpr std::array<std::string_view, 4> kRoles{"viewer", "developer", "billing", "admin"};

json::object object_of(std::string_view kind, const std::string& name, Instant created_at) {
  return {{"apiVersion", "nodus.dev/v1"},
          {"kind", kind},
          {"metadata", {{"name", name}, {"creationTimestamp", to_rfc3339(created_at)}}}};
}

json::value time_or_null(const std::optional<Instant>& at) {
  return at ? json::value(to_rfc3339(*at)) : json::value(nullptr);
}

json::object render(const Organization& o, const Quotas& defaults) {
  const Quotas quotas = effective(o.quotas, defaults);
  json::object out = object_of("Organization", o.org.str(), o.created_at);
  out["spec"] = {{"displayName", o.display_name},
                 {"quotas",
                  {{"sandboxes", quotas.sandboxes},
                   {"cpu", config::format_cpu(quotas.cpu_milli)},
                   {"storedBytes", quotas.stored_bytes},
                   {"createsPerMinute", quotas.creates_per_minute}}}};
  json::object status{{"phase", o.suspended_at ? "Suspended" : "Active"},
                      {"usage",
                       {{"sandboxes", o.usage.sandboxes},
                        {"cpu", config::format_cpu(o.usage.cpu_milli)},
                        {"storedBytes", o.usage.stored_bytes}}}};
  if (o.suspended_at) {
    status["suspendedAt"] = to_rfc3339(*o.suspended_at);
    status["message"] = o.suspended_reason;
  }
  out["status"] = std::move(status);
  return out;
}

json::object render(const Project& p) {
  return object_of("Project", p.name, p.created_at);
}

json::object render(const ApiKey& key) {
  json::object out = object_of("APIKey", key.name, key.created_at);
  out["metadata"].as_object()["uid"] = key.id;
  out["spec"] = {{"role", key.role}, {"project", key.project}, {"expiresAt", time_or_null(key.expires_at)}};
  json::array secrets;
  for (const auto& secret : key.secrets)
    secrets.push_back({{"hint", secret.hint},
                       {"createdAt", to_rfc3339(secret.created_at)},
                       {"expiresAt", time_or_null(secret.expires_at)}});
  out["status"] = {{"createdBy", key.created_by}, {"secrets", std::move(secrets)}};
  return out;
}

http::Response render(const KeyWithSecret& made, int status) {
  json::object out = render(made.key);
  out["status"].as_object()["key"] = made.secret;
  auto response = http::json(status, json::serialize(out));
  response.headers.set("Cache-Control", "no-store");
  return response;
}

http::Response render(json::object object, int status = 200) {
  return http::json(status, json::serialize(object));
}

Result<NamePage> page_of(const http::Request& request) {
  NamePage page;
  page.after = request.query_value("continue").value_or("");
  const auto limit = request.query_value("limit");
  if (!limit) return page;
  if (limit->empty() || limit->size() > 3 ||
      !std::ranges::all_of(*limit, [](char c) { return c >= '0' && c <= '9'; }) || std::stoi(*limit) < 1 ||
      std::stoi(*limit) > 500)
    return fail(Code::kInvalid, "Invalid", "limit: a number from 1 to 500.");
  page.limit = std::stoi(*limit);
  return page;
}

template <class T>
Result<http::Response> render_list(std::string_view kind, const Result<std::vector<T>>& found,
                                   const NamePage& page) {
  if (!found) return std::unexpected(found.error());
  json::array items;
  for (const auto& item : *found) items.push_back(render(item));
  json::object metadata;
  if (static_cast<int>(found->size()) == page.limit) metadata["continue"] = found->back().name;
  return render(json::object{{"apiVersion", "nodus.dev/v1"},
                             {"kind", kind},
                             {"metadata", std::move(metadata)},
                             {"items", std::move(items)}});
}

// metadata.name of a body with `kind`; faults for everything that is not expected.
std::string read_object(Faults& faults, const json::object& root, std::string_view kind,
                        std::initializer_list<std::string_view> members) {
  faults.only(root, "", members);
  for (const auto& [key, wanted] :
       {std::pair<std::string_view, std::string_view>{"apiVersion", "nodus.dev/v1"}, {"kind", kind}})
    if (const auto* text = faults.text(root, key, std::string(key));
        text && std::string_view(*text) != wanted)
      faults.add(std::string(key), "FieldValueInvalid", "This is " + std::string(wanted) + ".");
  const auto* metadata = faults.object(root, "metadata", "metadata");
  const auto* name = metadata ? faults.text(*metadata, "name", "metadata.name") : nullptr;
  if (metadata) faults.only(*metadata, "metadata", {"name"});
  if (!name) {
    faults.add("metadata.name", "FieldValueRequired", "Name it.");
    return "";
  }
  if (!is_dns_label(*name))
    faults.add(
        "metadata.name", "FieldValueInvalid",
        "A name has 1 to 63 lowercase letters, digits and hyphens, and begins and ends with a letter or "
        "digit.");
  return std::string(*name);
}

std::optional<Micros> read_duration(Faults& faults, const json::object& in, std::string_view key,
                                    const std::string& path, Micros min, Micros max) {
  const auto* text = faults.text(in, key, path);
  if (!text) return std::nullopt;
  const auto duration = config::parse_duration(*text);
  if (duration && *duration >= min && *duration <= max) return *duration;
  faults.add(path, "FieldValueInvalid",
             "A duration from " + config::format_duration(min) + " to " + config::format_duration(max) +
                 ", such as 24h.");
  return std::nullopt;
}

Result<http::Response> list_organizations(Api& api, const http::Identity& caller, const http::Request&) {
  auto own = api.tenants.organization(caller.org);
  if (!own) return std::unexpected(std::move(own.error()));
  return render(json::object{{"apiVersion", "nodus.dev/v1"},
                             {"kind", "OrganizationList"},
                             {"metadata", json::object{}},
                             {"items", json::array{render(*own, api.options.quotas)}}});
}

Result<http::Response> get_organization(Api& api, const http::Identity& caller, const http::Request&) {
  auto own = api.tenants.organization(caller.org);
  if (!own) return std::unexpected(std::move(own.error()));
  return render(render(*own, api.options.quotas));
}

Result<http::Response> list_projects(Api& api, const http::Identity& caller, const http::Request& request) {
  auto page = page_of(request);
  if (!page) return std::unexpected(std::move(page.error()));
  return render_list("ProjectList", api.tenants.projects(caller.org, *page), *page);
}

Result<http::Response> get_project(Api& api, const http::Identity& caller, const http::Request& request) {
  auto found = api.tenants.project(caller.org, request.params.at("name"));
  if (!found) return std::unexpected(std::move(found.error()));
  return render(render(*found));
}

Result<http::Response> create_project(Api& api, const http::Identity& caller, const http::Request& request) {
  auto root = parse_object(request.body);
  if (!root) return std::unexpected(std::move(root.error()));
  Faults faults;
  const std::string name = read_object(faults, *root, "Project", {"apiVersion", "kind", "metadata"});
  if (faults.any()) return std::unexpected(faults.error("The project"));
  auto made = api.tenants.create_project(caller.org, name);
  if (!made) return std::unexpected(std::move(made.error()));
  return render(render(*made), 201);
}

// Budgets are metering's: without its word nothing is deleted, since one that is left would limit the next
// project of this name.
awaitable<void> delete_project(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  const std::string name = exchange.request().params.at("name");
  auto own = co_await blocking<Project>(exchange, [&] { return api.tenants.project(caller.org, name); });
  if (!own) co_return co_await exchange.respond(http::status(own.error()));
  http::Identity reader = caller;
  reader.project = own->id;
  const auto budgets = co_await count_budgets(api, reader);
  if (!budgets) co_return co_await exchange.respond(http::status(budgets.error()));
  auto gone = co_await blocking<Project>(exchange, [&]() -> Result<Project> {
    if (*budgets > 0)
      return fail(Code::kConflict, "ProjectNotEmpty",
                  fmt::format("Project \"{}\" has {} {}. Delete {} first; nothing was changed.", name,
                              *budgets, *budgets == 1 ? "Budget" : "Budgets", *budgets == 1 ? "it" : "them"));
    return api.tenants.delete_project(caller.org, name);
  });
  api.keys.forget();
  co_await exchange.respond(gone ? render(render(*gone)) : http::status(gone.error()));
}

Result<http::Response> list_keys(Api& api, const http::Identity& caller, const http::Request& request) {
  auto page = page_of(request);
  if (!page) return std::unexpected(std::move(page.error()));
  return render_list("APIKeyList", api.tenants.keys(caller.org, *page), *page);
}

Result<http::Response> get_key(Api& api, const http::Identity& caller, const http::Request& request) {
  auto found = api.tenants.key(caller.org, request.params.at("name"));
  if (!found) return std::unexpected(std::move(found.error()));
  return render(render(*found));
}

void read_expiry(Faults& faults, const json::object& spec, Instant now, NewKey& out) {
  constexpr Micros kLongest = std::chrono::hours(24 * 366 * 5);
  if (spec.contains("expiresAfter") && spec.contains("expiresAt"))
    faults.add("spec.expiresAfter", "FieldValueInvalid", "Give expiresAt or expiresAfter, not both.");
  if (const auto after =
          read_duration(faults, spec, "expiresAfter", "spec.expiresAfter", Seconds(1), kLongest))
    out.expires_at = now + *after;
  if (const auto* text = faults.text(spec, "expiresAt", "spec.expiresAt")) {
    const auto at = parse_rfc3339(*text);
    if (at && *at > now && *at < now + kLongest)
      out.expires_at = *at;
    else
      faults.add("spec.expiresAt", "FieldValueInvalid",
                 "An instant to come, such as " +
                     to_rfc3339(std::chrono::floor<Seconds>(now) + Seconds(86'400)) + ".");
  }
}

Result<http::Response> create_key(Api& api, const http::Identity& caller, const http::Request& request) {
  auto root = parse_object(request.body);
  if (!root) return std::unexpected(std::move(root.error()));
  Faults faults;
  NewKey wanted;
  wanted.created_by = caller.key_id;
  wanted.name = read_object(faults, *root, "APIKey", {"apiVersion", "kind", "metadata", "spec"});
  if (const auto* spec = faults.object(*root, "spec", "spec")) {
    faults.only(*spec, "spec", {"role", "project", "expiresAt", "expiresAfter"});
    if (const auto* role = faults.text(*spec, "role", "spec.role")) wanted.role = *role;
    if (const auto* project = faults.text(*spec, "project", "spec.project")) wanted.project = *project;
    read_expiry(faults, *spec, api.clock.now(), wanted);
  }
  if (std::ranges::find(kRoles, wanted.role) == kRoles.end())
    faults.add("spec.role", wanted.role.empty() ? "FieldValueRequired" : "FieldValueInvalid",
               "One of viewer, developer, billing, admin.");
  if (faults.any()) return std::unexpected(faults.error("The key"));
  auto made = api.tenants.create_key(caller.org, wanted);
  if (!made) return std::unexpected(std::move(made.error()));
  return render(*made, 201);
}

Result<http::Response> rotate_key(Api& api, const http::Identity& caller, const http::Request& request) {
  Micros overlap = kOverlap;
  if (!request.body.empty()) {
    auto root = parse_object(request.body);
    if (!root) return std::unexpected(std::move(root.error()));
    Faults faults;
    faults.only(*root, "", {"overlap"});
    overlap = read_duration(faults, *root, "overlap", "overlap", Micros(0), kMaxOverlap).value_or(kOverlap);
    if (faults.any()) return std::unexpected(faults.error("The rotation"));
  }
  auto made = api.tenants.rotate_key(caller.org, request.params.at("name"), overlap);
  api.keys.forget();
  if (!made) return std::unexpected(std::move(made.error()));
  return render(*made, 200);
}

Result<http::Response> delete_key(Api& api, const http::Identity& caller, const http::Request& request) {
  auto gone = api.tenants.revoke_key(caller.org, request.params.at("name"));
  api.keys.forget();
  if (!gone) return std::unexpected(std::move(gone.error()));
  return render(render(*gone));
}

json::object render(const AuditRecord& r) {
  json::object out{{"apiVersion", "nodus.dev/v1"}, {"kind", "AuditEvent"}};
  out["metadata"] = {{"name", r.id}, {"creationTimestamp", to_rfc3339(r.at)}};
  out["key"] = {{"uid", r.key_id}, {"name", r.key_name}, {"role", r.role}};
  out["organization"] = r.org;
  out["project"] = r.project;
  out["method"] = r.method;
  out["route"] = r.route;
  out["object"] = r.object;
  out["code"] = r.status;
  out["reason"] = r.reason;
  out["sourceAddress"] = r.peer;
  return out;
}

Result<http::Response> list_audit(Api& api, const http::Identity& caller, const http::Request& request) {
  auto page = page_of(request);
  if (!page) return std::unexpected(std::move(page.error()));
  auto found = api.audit.page(caller.org, {.key = request.query_value("key").value_or(""),
                                           .project = request.query_value("project").value_or(""),
                                           .route = request.query_value("route").value_or(""),
                                           .after = page->after,
                                           .limit = page->limit});
  if (!found) return std::unexpected(std::move(found.error()));
  json::array items;
  for (const auto& item : found->records) items.push_back(render(item));
  json::object metadata;
  if (!found->next.empty()) metadata["continue"] = found->next;
  return render(json::object{{"apiVersion", "nodus.dev/v1"},
                             {"kind", "AuditEventList"},
                             {"metadata", std::move(metadata)},
                             {"items", std::move(items)}});
}

PublicRoute row(std::string method, std::string pattern, std::string name, Right right, PlainHandler plain) {
  const Effect effect = method == "GET"      ? Effect::kReads
                        : method == "DELETE" ? Effect::kRemoves
                                             : Effect::kChanges;
  return {.method = method,
          .pattern = std::move(pattern),
          .name = std::move(name),
          .right = right,
          .effect = effect,
          .plain = plain,
          .body_bytes = method == "POST" ? kBodyBytes : 0};
}

}  // namespace

std::vector<PublicRoute> tenant_routes() {
  const auto own = [](std::string_view rest) { return std::string(kOwn) + std::string(rest); };
  std::vector<PublicRoute> rows{
      row("GET", std::string(kOrganizations), "organizations.list", Right::kRead, list_organizations),
      row("GET", own(""), "organizations.get", Right::kRead, get_organization),
      row("GET", own("/projects"), "projects.list", Right::kRead, list_projects),
      row("POST", own("/projects"), "projects.create", Right::kAdmin, create_project),
      row("GET", own("/projects/{name}"), "projects.get", Right::kRead, get_project),
      {.method = "DELETE",
       .pattern = own("/projects/{name}"),
       .name = "projects.delete",
       .right = Right::kAdmin,
       .effect = Effect::kRemoves,
       .stream = delete_project},
      row("GET", own("/keys"), "keys.list", Right::kAdmin, list_keys),
      row("POST", own("/keys"), "keys.create", Right::kAdmin, create_key),
      row("GET", own("/keys/{name}"), "keys.get", Right::kAdmin, get_key),
      row("DELETE", own("/keys/{name}"), "keys.delete", Right::kAdmin, delete_key),
      row("POST", own("/keys/{name}/rotate"), "keys.rotate", Right::kAdmin, rotate_key),
      row("GET", own("/auditevents"), "auditevents.list", Right::kAdmin, list_audit),
  };
  // A leaked key is replaced also while the organization is suspended.
  for (auto& r : rows)
    if (r.name == "keys.rotate") r.effect = Effect::kRemoves;
  return rows;
}

}  // namespace nodus::lifecycle
