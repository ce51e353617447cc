#include "services/metering/adapters/postgres/budget_changes.hpp"

#include <boost/json.hpp>

#include "services/metering/adapters/http/budget_object.hpp"
#include "services/metering/app/streams.hpp"

namespace nodus::metering {

namespace {

bool reads_the_same(const budget::Budget& one, const budget::Budget& other) {
  return one.spec == other.spec && one.metadata == other.metadata && one.generation == other.generation &&
         one.reached == other.reached && one.exhausted_s == other.exhausted_s;
}

// In one statement: the row, the Budget's version and the project's.
void write(pg::Tx& tx, const BudgetChangeNote& note) {
  tx.exec_params(
      "WITH made AS (INSERT INTO budget_changes (project, name, type, object, was, at_us)"
      " VALUES ($1, $2, $3, $4, nullif($5, ''), $6) RETURNING position),"
      " feed AS (INSERT INTO budget_feeds (project, last) SELECT $1, position FROM made"
      " ON CONFLICT (project) DO UPDATE SET last = excluded.last)"
      " INSERT INTO budget_versions (project, name, position) SELECT $1, $2, position FROM made"
      " ON CONFLICT (project, name) DO UPDATE SET position = excluded.position",
      note.project.str(), note.name, note.type, note.object, note.was, to_micros(note.at));
  if (note.type == "DELETED")
    tx.exec_params("DELETE FROM budget_versions WHERE project = $1 AND name = $2", note.project.str(),
                   note.name);
}

void drop_old(pg::Tx& tx, const std::string& project, Instant now) {
  tx.exec_params(
      "WITH gone AS (DELETE FROM budget_changes WHERE project = $1 AND (at_us < $2 OR position <="
      " (SELECT position FROM budget_changes WHERE project = $1 ORDER BY position DESC OFFSET $3 LIMIT 1))"
      " RETURNING position)"
      " UPDATE budget_feeds SET floor = greatest(floor, (SELECT max(position) FROM gone))"
      " WHERE project = $1 AND EXISTS (SELECT FROM gone)",
      project, to_micros(now - kBudgetChangesKept), kBudgetChangesOfProject);
}

}  // namespace

std::vector<BudgetChangeNote> budget_changes(const budget::State& before, const budget::State& after,
                                             Instant now) {
  std::vector<BudgetChangeNote> out;
  const auto note = [&](const char* type, const budget::State& state, const budget::Budget& budget,
                        std::string was = "") {
    out.push_back({state.project, budget.name, type, boost::json::serialize(to_json(state, budget, now)),
                   std::move(was), now});
  };
  for (const auto& was : before.budgets) {
    const auto* is = budget::find(after, was.name);
    if (is == nullptr || is->uid != was.uid) note("DELETED", before, was);
  }
  for (const auto& is : after.budgets) {
    const auto* was = budget::find(before, is.name);
    if (was == nullptr || was->uid != is.uid)
      note("ADDED", after, is);
    else if (!reads_the_same(*was, is))
      note("MODIFIED", after, is,
           was->metadata == is.metadata ? "" : boost::json::serialize(to_json(before, *was, now)));
  }
  return out;
}

void write_budget_changes(pg::Tx& tx, const std::vector<std::any>& staged) {
  std::map<std::string, Instant> changed;  // projects
  for (const auto& any : staged) {
    const auto* note = std::any_cast<BudgetChangeNote>(&any);
    if (note == nullptr) continue;
    write(tx, *note);
    changed[note->project.str()] = note->at;
  }
  for (const auto& [project, now] : changed) drop_old(tx, project, now);
}

int64_t BudgetsSeen::position_of(const std::string& name) const {
  const auto found = positions.find(name);
  return found == positions.end() ? 1 : found->second;  // from before there were changes
}

Result<BudgetsSeen> see_budgets(pg::Tx& tx, const OrgId& org, const ProjectId& project) {
  const auto row = tx.exec_params1(
      "SELECT coalesce(h.version, 0), h.state, coalesce(f.last, 1),"
      " (SELECT jsonb_object_agg(v.name, v.position)::text FROM budget_versions v WHERE v.project = $2)"
      " FROM (VALUES (1)) one LEFT JOIN heads h ON h.stream = $1 LEFT JOIN budget_feeds f ON f.project = $2",
      budget_stream(project), project.str());
  BudgetsSeen out;
  out.state.org = org;
  out.state.project = project;
  if (row[0].as<int64_t>() > 0) {
    auto state = codec::decode_budget_state(pqxx::binarystring(row[1]).str());
    if (!state) return std::unexpected(std::move(state.error()));
    out.state = std::move(*state);
  }
  out.last = row[2].as<int64_t>();
  if (!row[3].is_null())
    for (const auto& [name, position] : boost::json::parse(row[3].as<std::string>()).as_object())
      out.positions[std::string(name)] = position.as_int64();
  return out;
}

Result<BudgetChanges> read_budget_changes(pg::Tx& tx, const ProjectId& project, int64_t after, int limit) {
  // One statement: the rows and where they end are of one moment.
  const auto rows = tx.exec_params(
      "SELECT coalesce(f.last, 1), coalesce(f.floor, 1), c.position, c.type, c.object, coalesce(c.was, '')"
      " FROM (VALUES (1)) one LEFT JOIN budget_feeds f ON f.project = $1"
      " LEFT JOIN LATERAL (SELECT * FROM budget_changes WHERE project = $1 AND position > $2"
      " ORDER BY position LIMIT $3) c ON true ORDER BY c.position",
      project.str(), after, limit);
  BudgetChanges out;
  for (const auto& row : rows) {
    out.last = row[0].as<int64_t>();
    out.floor = row[1].as<int64_t>();
    if (row[2].is_null()) continue;
    const auto position = row[2].as<int64_t>();
    auto object = boost::json::parse(row[4].as<std::string>()).as_object();
    object["metadata"].as_object()["resourceVersion"] = std::to_string(position);
    out.changes.push_back(
        {position, row[3].as<std::string>(), boost::json::serialize(object), row[5].as<std::string>()});
  }
  out.more = static_cast<int>(out.changes.size()) == limit;
  if (out.more) out.last = out.changes.back().position;
  return out;
}

}  // namespace nodus::metering
