#include "services/lifecycle/admin.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include "libs/base/names.hpp"
#include "libs/base/random.hpp"
#include "libs/config/config.hpp"
#include "services/lifecycle/adapters/audit.hpp"
#include "services/lifecycle/adapters/tenants.hpp"
#include "services/lifecycle/config.hpp"
#include "services/lifecycle/service.hpp"

namespace nodus::lifecycle {

namespace {

Result<std::optional<int64_t>> quota_of(const std::string& text, const std::optional<int64_t>& now,
                                        Result<int64_t> (*parse)(std::string_view)) {
  if (text.empty()) return now;
  if (text == "default") return std::nullopt;
  auto value = parse(text);
  if (!value) return std::unexpected(std::move(value.error()));
  return *value;
}

Result<QuotaRow> quotas_of(const AdminRequest& request, const QuotaRow& now) {
  auto sandboxes = quota_of(request.sandboxes, now.sandboxes, config::parse_bytes);
  auto cpu = quota_of(request.cpu, now.cpu_milli, config::parse_cpu_milli);
  auto bytes = quota_of(request.stored_bytes, now.stored_bytes, config::parse_bytes);
  auto creates = quota_of(request.creates_per_minute, now.creates_per_minute, config::parse_bytes);
  for (const auto* part : {&sandboxes, &cpu, &bytes, &creates})
    if (!*part) return std::unexpected(part->error());
  return QuotaRow{*sandboxes, *cpu, *bytes, *creates};
}

std::string show(const std::optional<int64_t>& quota) {
  return quota ? std::to_string(*quota) : "default";
}

void print(const Organization& o) {
  fmt::print("{:<24} {:<10} {:>10}/{:<10} {:>10}/{:<10} {:>14}/{:<14} {:>8}\n", o.org.str(),
             o.suspended_at ? "Suspended" : "Active", o.usage.sandboxes, show(o.quotas.sandboxes),
             config::format_cpu(o.usage.cpu_milli),
             o.quotas.cpu_milli ? config::format_cpu(*o.quotas.cpu_milli) : "default", o.usage.stored_bytes,
             show(o.quotas.stored_bytes), show(o.quotas.creates_per_minute));
}

void print_header() {
  fmt::print("{:<24} {:<10} {:>10}/{:<10} {:>10}/{:<10} {:>14}/{:<14} {:>8}\n", "ORGANIZATION", "PHASE",
             "SANDBOXES", "QUOTA", "VCPU", "QUOTA", "STORED BYTES", "QUOTA", "CREATES/MIN");
}

int failed(const Error& error) {
  fmt::print(stderr, "nodus-lifecycle: {}\n", error.message);
  return 1;
}

int done(const Result<Organization>& after) {
  if (!after) return failed(after.error());
  print_header();
  print(*after);
  return 0;
}

int list(Tenants& tenants) {
  print_header();
  NamePage page;
  while (true) {
    auto found = tenants.organizations(page);
    if (!found) return failed(found.error());
    for (const auto& o : *found) print(o);
    if (static_cast<int>(found->size()) < page.limit) return 0;
    page.after = found->back().org.str();
  }
}

int create_key(Tenants& tenants, const AdminRequest& request) {
  auto made = tenants.create_key(OrgId(request.org), {.name = request.key,
                                                      .role = request.role,
                                                      .project = request.project,
                                                      .created_by = "",
                                                      .expires_at = {}});
  if (!made) return failed(made.error());
  return write_key_file(request.key_file, made->secret);
}

int run(Tenants& tenants, const AdminRequest& request) {
  const OrgId org(request.org);
  if (request.action == "org create") return done(tenants.create_organization(org, request.display_name));
  if (request.action == "org list") return list(tenants);
  if (request.action == "org show") return done(tenants.organization(org));
  if (request.action == "org suspend") return done(tenants.suspend(org, request.reason));
  if (request.action == "org resume") return done(tenants.resume(org));
  if (request.action == "org quota") {
    auto now = tenants.organization(org);
    if (!now) return failed(now.error());
    auto quotas = quotas_of(request, now->quotas);
    return quotas ? done(tenants.set_quotas(org, *quotas)) : failed(quotas.error());
  }
  if (request.action == "project create") {
    auto made = tenants.create_project(org, request.project);
    return made ? 0 : failed(made.error());
  }
  if (request.action == "key create") return create_key(tenants, request);
  auto gone = tenants.revoke_key(org, request.key);
  return gone ? 0 : failed(gone.error());
}

}  // namespace

CLI::App* admin_options(CLI::App& app, AdminRequest& request) {
  auto* admin = app.add_subcommand("admin", "organizations, their quotas and keys");
  const CLI::Validator label(
      [](std::string& text) {
        return is_dns_label(text) ? std::string()
                                  : "a name has 1 to 63 lowercase letters, digits and hyphens";
      },
      "NAME");
  const auto action = [&](CLI::App* group, const char* name, const char* says) {
    auto* made = group->add_subcommand(name, says);
    made->callback([&request, full = group->get_name() + " " + name] { request.action = full; });
    return made;
  };
  auto* org = admin->add_subcommand("org", "organizations");
  auto* project = admin->add_subcommand("project", "projects");
  auto* key = admin->add_subcommand("key", "keys");
  for (auto* group : {org, project, key}) group->require_subcommand(1);
  admin->require_subcommand(1);

  action(org, "list", "all of them, with what they use");
  auto* create = action(org, "create", "make an organization");
  create->add_option("--display-name", request.display_name);
  auto* suspend = action(org, "suspend", "stop its Sandboxes (files are kept) and refuse changes");
  suspend->add_option("--reason", request.reason, "shown to its people")->required();
  auto* resume = action(org, "resume", "take a suspension back; starts nothing");
  auto* show_one = action(org, "show", "one, with what it uses");
  auto* quota = action(org, "quota", "set quotas: a number or quantity, or \"default\"");
  quota->add_option("--sandboxes", request.sandboxes);
  quota->add_option("--cpu", request.cpu, "vCPU of those that run, e.g. 16 or 500m");
  quota->add_option("--stored-bytes", request.stored_bytes, "e.g. 100Gi");
  quota->add_option("--creates-per-minute", request.creates_per_minute);
  for (auto* one : {create, suspend, resume, show_one, quota})
    one->add_option("org", request.org)->required()->check(label);

  auto* make_project = action(project, "create", "make a project");
  make_project->add_option("--org", request.org)->required()->check(label);
  make_project->add_option("name", request.project)->required()->check(label);
  auto* make_key = action(key, "create", "make a key");
  make_key->add_option("--role", request.role)
      ->check(CLI::IsMember({"viewer", "developer", "billing", "admin"}));
  make_key->add_option("--project", request.project, "the only one it may use");
  make_key->add_option("--key-out", request.key_file, "where the secret is written to (0600)")->required();
  auto* revoke = action(key, "revoke", "end a key at once");
  for (auto* one : {make_key, revoke}) {
    one->add_option("--org", request.org)->required()->check(label);
    one->add_option("name", request.key)->required()->check(label);
  }
  return admin;
}

int administer(const Config& config, const AdminRequest& request) {
  const SystemClock clock;
  pg::Pool pool(config.database, 1);
  Tenants tenants(pool, clock);
  const int code = run(tenants, request);
  if (request.org.empty()) return code;
  const AuditRecord record{.at = clock.now(),
                           .id = random_uuid(),
                           .org = request.org,
                           .key_id = "operator",
                           .key_name = "operator",
                           .role = "operator",
                           .project = request.project,
                           .method = "COMMAND",
                           .route = request.action,
                           .object = request.key,
                           .status = code == 0 ? 200 : 400,
                           .reason = request.reason,
                           .peer = ""};
  auto written = pool.with_tx([&](pg::Tx& tx) { return write_audit(tx, {record}); });
  return written ? code : failed(written.error());
}

}  // namespace nodus::lifecycle
