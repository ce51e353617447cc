// Objects as the API shows them, and pages of them. Each is one statement.
#include <fmt/core.h>

#include <charconv>

#include "libs/pg/reader.hpp"
#include "services/lifecycle/adapters/codec.hpp"
#include "services/lifecycle/adapters/postgres_catalog.hpp"
#include "services/lifecycle/app/works.hpp"

namespace nodus::lifecycle {

namespace {

constexpr FieldColumn kSandboxFields[] = {{"metadata.name", "s.name"},
                                          {"metadata.namespace", "regexp_replace(s.project, '^.*/', '')"},
                                          {"status.phase", "s.phase"}};
constexpr FieldColumn kProcessFields[] = {
    {"metadata.name", "p.name"},
    {"metadata.namespace", "regexp_replace(p.project, '^.*/', '')"},
    {"spec.sandbox", "s.name"},
    {"status.phase", "(CASE WHEN p.ended THEN 'Ended' ELSE 'Running' END)"}};
constexpr FieldColumn kEventFields[] = {{"metadata.name", "e.name"},
                                        {"metadata.namespace", "regexp_replace(e.project, '^.*/', '')"},
                                        {"involvedObject.apiVersion", "'nodus.dev/v1'"},
                                        {"involvedObject.kind", "e.object_kind"},
                                        {"involvedObject.namespace", "regexp_replace(e.project, '^.*/', '')"},
                                        {"involvedObject.name", "e.object_name"},
                                        {"involvedObject.uid", "e.object_uid"},
                                        {"reportingComponent", "'nodus-lifecycle'"},
                                        {"type", "e.type"},
                                        {"reason", "e.reason"}};

// An empty page too has a position: the first column is of the row that is always there.
constexpr std::string_view kPage =
    "SELECT l.position, x.* FROM (SELECT coalesce(max(position), 1) AS position FROM changes) l "
    "LEFT JOIN LATERAL ({}) x ON true";

constexpr std::string_view kView =
    "coalesce(t.resource_version, 0), coalesce(t.generation, 1), "
    "EXISTS (SELECT 1 FROM processes p WHERE p.sandbox_uid = s.uid AND NOT p.ended), h.state";

std::unexpected<Error> none(std::string_view kind, const std::string& name) {
  return fail(Code::kNotFound, "NotFound",
              fmt::format("There is no {} named \"{}\" in this project.", kind, name));
}

std::string bytes_of(const pqxx::field& field) {
  return pqxx::binarystring(field).str();
}

Result<SandboxView> view_of(const pqxx::row& row, int from) {
  auto state = SandboxCodec::decode_state(bytes_of(row[from + 3]));
  if (!state) return std::unexpected(std::move(state.error()));
  return SandboxView{std::move(*state), row[from + 2].as<bool>(), row[from + 1].as<int64_t>(),
                     row[from].as<int64_t>()};
}

Result<ProcessView> process_of(const pqxx::row& row, int from) {
  auto state = ProcessCodec::decode_state(bytes_of(row[from + 1]));
  if (!state) return std::unexpected(std::move(state.error()));
  return ProcessView{std::move(*state), row[from].as<int64_t>()};
}

constexpr std::string_view kEventColumns =
    "e.uid, e.project, e.name, e.object_kind, e.object_uid, e.object_name, e.type, e.reason, e.message, "
    "e.count, "
    "e.first_us, e.last_us, e.resource_version";

Result<ObjectEvent> event_of(const pqxx::row& row, int from) {
  return ObjectEvent{row[from].as<std::string>(),
                     ProjectId(row[from + 1].as<std::string>()),
                     row[from + 2].as<std::string>(),
                     row[from + 3].as<std::string>(),
                     row[from + 4].as<std::string>(),
                     row[from + 5].as<std::string>(),
                     row[from + 6].as<std::string>(),
                     row[from + 7].as<std::string>(),
                     row[from + 8].as<std::string>(),
                     row[from + 9].as<int64_t>(),
                     from_micros(row[from + 10].as<int64_t>()),
                     from_micros(row[from + 11].as<int64_t>()),
                     row[from + 12].as<int64_t>()};
}

// Runs a page's statement: `sql` asks for one row more than the limit, the key of each first.
template <class T, class Map>
Result<Listed<T>> page(pg::Pool& pool, const std::string& sql, const std::vector<std::string>& parameters,
                       int limit, Map map) {
  return pool.with_tx([&](pg::Tx& tx) -> Result<Listed<T>> {
    Listed<T> out;
    const auto rows = tx.exec_params(fmt::format(kPage, sql), pqxx::prepare::make_dynamic_params(parameters));
    for (const auto& row : rows) {
      out.resource_version = row[0].as<int64_t>();
      if (row[1].is_null()) break;
      if (std::ssize(out.items) == limit) return out;  // `next` is the key of the last item of the page
      auto item = map(row, 2);
      if (!item) return std::unexpected(std::move(item.error()));
      out.items.push_back(std::move(*item));
      out.next = row[1].as<std::string>();
    }
    out.next.clear();
    return out;
  });
}

}  // namespace

Result<SandboxView> PostgresCatalog::view(const ProjectId& project, const std::string& name) {
  return pg::read(pool_, [&](pqxx::nontransaction& reader) -> Result<SandboxView> {
    reader.conn().prepare(
        "sandbox_by_name",
        fmt::format("SELECT {} FROM sandboxes s JOIN heads h ON h.stream = 'sandbox/' || s.uid "
                    "LEFT JOIN sandbox_told t ON t.uid = s.uid "
                    "WHERE s.project = $1 AND s.name = $2",
                    kView));
    const auto rows = reader.exec_prepared("sandbox_by_name", project.str(), name);
    if (rows.empty()) return none("Sandbox", name);
    return view_of(rows[0], 0);
  });
}

Result<SandboxView> PostgresCatalog::view(const SandboxUid& uid) {
  auto found = pool_.with_tx([&](pg::Tx& tx) -> Result<std::optional<SandboxView>> {
    tx.conn().prepare("sandbox_by_uid",
                      fmt::format("SELECT {} FROM sandboxes s JOIN heads h ON h.stream = 'sandbox/' || s.uid "
                                  "LEFT JOIN sandbox_told t ON t.uid = s.uid "
                                  "WHERE s.uid = $1",
                                  kView));
    const auto rows = tx.exec_prepared("sandbox_by_uid", uid.str());
    if (rows.empty()) return std::nullopt;
    auto view = view_of(rows[0], 0);
    if (!view) return std::unexpected(std::move(view.error()));
    return std::move(*view);
  });
  if (!found) return std::unexpected(std::move(found.error()));
  if (*found) return std::move(**found);
  auto gone = sandbox(uid);
  if (!gone) return std::unexpected(std::move(gone.error()));
  return SandboxView{std::move(*gone), false, 1, 0};
}

Result<Listed<SandboxView>> PostgresCatalog::sandboxes(const ProjectId& project, const ListQuery& query) {
  std::vector<std::string> parameters{project.str(), query.after};
  const std::string where = selector_sql(query.selector, "s.labels", kSandboxFields, parameters);
  return page<SandboxView>(pool_,
                           fmt::format("SELECT s.name, {} FROM sandboxes s JOIN heads h ON h.stream = "
                                       "'sandbox/' || s.uid LEFT JOIN sandbox_told t ON t.uid = s.uid "
                                       "WHERE s.project = $1 AND s.name > $2{} ORDER BY s.name LIMIT {}",
                                       kView, where, query.limit + 1),
                           parameters, query.limit, view_of);
}

Result<ProcessView> PostgresCatalog::process_view(const ProjectId& project, const std::string& name) {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<ProcessView> {
    tx.conn().prepare(
        "process_by_name",
        "SELECT p.resource_version, h.state FROM processes p JOIN sandboxes s ON s.uid = p.sandbox_uid "
        "JOIN heads h ON h.stream = 'process/' || p.uid WHERE p.project = $1 AND p.name = $2");
    const auto rows = tx.exec_prepared("process_by_name", project.str(), name);
    if (rows.empty()) return none("Process", name);
    return process_of(rows[0], 0);
  });
}

Result<Listed<ProcessView>> PostgresCatalog::processes(const ProjectId& project, const ListQuery& query) {
  const size_t slash = query.after.find('/');
  int64_t before_us = INT64_MAX;
  if (!query.after.empty())
    std::from_chars(query.after.data(), query.after.data() + std::min(slash, query.after.size()), before_us);
  std::vector<std::string> parameters{project.str(), std::to_string(before_us),
                                      slash == std::string::npos ? "" : query.after.substr(slash + 1)};
  const std::string where = selector_sql(query.selector, "jsonb_build_object('nodus.dev/sandbox', s.name)",
                                         kProcessFields, parameters);
  return page<ProcessView>(
      pool_,
      fmt::format("SELECT p.admitted_us || '/' || p.uid, p.resource_version, h.state FROM processes p "
                  "JOIN sandboxes s ON s.uid = p.sandbox_uid JOIN heads h ON h.stream = 'process/' || p.uid "
                  "WHERE p.project = $1 AND (p.admitted_us, p.uid) < ($2::bigint, $3){} "
                  "ORDER BY p.admitted_us DESC, p.uid DESC LIMIT {}",
                  where, query.limit + 1),
      parameters, query.limit, process_of);
}

Result<ObjectEvent> PostgresCatalog::event(const ProjectId& project, const std::string& name) {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<ObjectEvent> {
    const auto rows = tx.exec_params(
        fmt::format("SELECT {} FROM object_events e WHERE e.project = $1 AND e.name = $2", kEventColumns),
        project.str(), name);
    if (rows.empty()) return none("Event", name);
    return event_of(rows[0], 0);
  });
}

Result<Listed<ObjectEvent>> PostgresCatalog::events(const ProjectId& project, const ListQuery& query) {
  std::vector<std::string> parameters{project.str(), query.after};
  const std::string where = selector_sql(query.selector, "'{}'::jsonb", kEventFields, parameters);
  return page<ObjectEvent>(pool_,
                           fmt::format("SELECT e.name AS key, {} FROM object_events e WHERE e.project = $1 "
                                       "AND e.name > $2{} ORDER BY e.name LIMIT {}",
                                       kEventColumns, where, query.limit + 1),
                           parameters, query.limit, event_of);
}

Result<ChangePage> PostgresCatalog::changes(const ProjectId& project, const std::string& resource,
                                            int64_t after, int limit) {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<ChangePage> {
    tx.conn().prepare(
        "changes_after",
        "SELECT l.floor, l.last, x.* FROM (SELECT (SELECT position FROM changes_floor) AS floor, "
        "coalesce((SELECT max(position) FROM changes), 1) AS last) l LEFT JOIN LATERAL "
        "(SELECT position, project, resource, type, object, was FROM changes WHERE project = $1 AND resource "
        "= $2 "
        "AND position > $3 ORDER BY position LIMIT $4) x ON true ORDER BY x.position");
    tx.conn().prepare(
        "changes_of_all",
        "SELECT l.floor, l.last, x.* FROM (SELECT (SELECT position FROM changes_floor) AS floor, "
        "coalesce((SELECT max(position) FROM changes), 1) AS last) l LEFT JOIN LATERAL "
        "(SELECT position, project, resource, type, object, was FROM changes "
        "WHERE position > $1 ORDER BY position LIMIT $2) x ON true ORDER BY x.position");
    const auto rows = project.empty()
                          ? tx.exec_prepared("changes_of_all", after, limit)
                          : tx.exec_prepared("changes_after", project.str(), resource, after, limit);
    ChangePage out;
    for (const auto& row : rows) {
      out.floor = row[0].as<int64_t>();
      out.last = row[1].as<int64_t>();
      if (row[2].is_null()) break;
      out.changes.push_back({row[2].as<int64_t>(), row[3].as<std::string>(), row[4].as<std::string>(),
                             row[5].as<std::string>(), row[6].as<std::string>(), row[7].as<std::string>()});
    }
    out.more = std::ssize(out.changes) == limit;
    if (out.more) out.last = out.changes.back().position;
    return out;
  });
}

}  // namespace nodus::lifecycle
