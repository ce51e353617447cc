#include "services/lifecycle/adapters/changes.hpp"

#include <map>
#include <set>

#include "libs/base/random.hpp"
#include "libs/pg/arrays.hpp"
#include "services/lifecycle/adapters/codec.hpp"
#include "services/lifecycle/adapters/render.hpp"
#include "services/lifecycle/domain/project.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;

namespace {

constexpr int kEventsOfObject = 100;  // kept
constexpr Micros kEventsOfGone = std::chrono::hours(24);

struct Known {  // of a Sandbox
  int64_t generation = 1;
  bool busy = false;  // as watchers were told
  bool busy_now = false;
  bool there = false;
  std::string state;  // encoded, as committed
};

struct SandboxRow {
  std::string uid;
  int64_t version = 0;
  int64_t generation = 1;
  bool busy = false;
  bool own = false;  // its head is held: the row of sandboxes is written too
  std::string phase;
  std::string labels;
};

// What one transaction changes, folded: an object that several Works changed is told once.
struct Notes {
  std::map<std::string, SandboxNote> sandboxes;  // by uid
  std::map<std::string, ProcessNote> processes;
  std::map<std::string, EventNote> events;
  std::set<std::string> touched;  // Sandboxes whose activity may be another
  std::set<std::string> retell;
  int expire = 0;  // at most so many Events
};

Notes fold(std::vector<std::any>& staged) {
  Notes out;
  for (auto& any : staged) {
    if (auto* sandbox = std::any_cast<SandboxNotePtr>(&any)) {
      auto [it, fresh] = out.sandboxes.try_emplace((*sandbox)->after.uid.str(), **sandbox);
      if (fresh) continue;
      it->second.after = (*sandbox)->after;
      it->second.gone = std::move((*sandbox)->gone);
    } else if (auto* process = std::any_cast<ProcessNotePtr>(&any)) {
      const auto& after = (*process)->after;
      out.touched.insert(after.admitted.sandbox.str());
      auto [it, fresh] = out.processes.try_emplace(after.admitted.uid.str(), **process);
      if (fresh) continue;
      it->second.after = after;
      it->second.gone |= (*process)->gone;
    } else if (auto* event = std::any_cast<EventNote>(&any)) {
      const std::string key =
          event->object.uid + '\0' + event->type + '\0' + event->reason + '\0' + event->message;
      auto [it, fresh] = out.events.try_emplace(key, *event);
      if (!fresh) it->second.count += event->count;
    } else if (auto* retell = std::any_cast<RetellNote>(&any)) {
      out.touched.insert(retell->uid.str());
      out.retell.insert(retell->uid.str());
    } else if (auto* expire = std::any_cast<ExpireNote>(&any)) {
      out.expire = expire->limit;
    }
  }
  for (const auto& [uid, note] : out.sandboxes) out.touched.insert(uid);
  return out;
}

json::object selectable(const json::object& object) {
  json::object out;
  const auto copy = [&](std::string_view section, std::initializer_list<std::string_view> keys) {
    const auto* from = object.if_contains(section);
    if (!from || !from->is_object()) return;
    json::object part;
    for (const auto key : keys)
      if (const auto* value = from->get_object().if_contains(key)) part[key] = *value;
    out[section] = std::move(part);
  };
  copy("metadata", {"name", "namespace", "labels"});
  copy("spec", {"sandbox"});
  copy("status", {"phase"});
  copy("involvedObject", {"apiVersion", "kind", "namespace", "name", "uid"});
  for (const std::string_view key : {"reportingComponent", "type", "reason"})
    if (const auto* value = object.if_contains(key)) out[key] = *value;
  return out;
}

// The same of a Sandbox, without rendering it.
json::object selectable(const Sandbox& sandbox) {
  json::object metadata{{"name", sandbox.name}, {"namespace", project_name(sandbox.project)}};
  if (!sandbox.labels.empty()) {
    json::object labels;
    for (const auto& [key, value] : sandbox.labels) labels[key] = value;
    metadata["labels"] = std::move(labels);
  }
  return {{"metadata", std::move(metadata)}, {"status", {{"phase", to_string(sandbox.phase)}}}};
}

class Writer {
 public:
  Writer(pg::Tx& tx, Notes notes, Instant now) : tx_(tx), notes_(std::move(notes)), now_(now) {}

  void run() {
    begin();
    for (const auto& uid : notes_.touched) tell_sandbox(uid);
    for (const auto& [uid, note] : notes_.processes) tell_process(uid, note);
    if (!notes_.events.empty()) tell_events();
    if (notes_.expire > 0) expire_events();
    let_events_expire();
    if (!changes_.empty() || !gone_.empty()) write();
  }

 private:
  void begin() {
    std::vector<std::string_view> uids(notes_.touched.begin(), notes_.touched.end());
    const auto rows =
        tx_.run({"changes_begin", "SELECT uid, last, generation, busy, open, state FROM changes_begin($1)",
                 pg::arrays::texts(uids)});
    for (int row = 0; row < rows.size(); ++row) {
      const std::string uid(rows.bytes(row, 0));
      if (uid.empty())
        position_ = rows.int8(row, 1);
      else
        known_[uid] = {rows.int8(row, 2), rows.boolean(row, 3), rows.int8(row, 4) > 0, !rows.null(row, 5),
                       std::string(rows.bytes(row, 5))};
    }
  }

  void tell_sandbox(const std::string& uid) {
    const auto note = notes_.sandboxes.find(uid);
    const Known& known = known_.at(uid);
    if (note != notes_.sandboxes.end() && note->second.after.phase == Phase::kDeleted)
      return tell_gone(note->second, known.generation);
    if (!known.there) return;  // gone: a Process ended after its Sandbox
    SandboxView before;
    SandboxView after;
    if (note != notes_.sandboxes.end()) {
      before.sandbox = note->second.before;
      after.sandbox = note->second.after;
    } else {
      auto state = SandboxCodec::decode_state(known.state);
      if (!state) return;  // a newer release wrote it
      before.sandbox = after.sandbox = *state;
    }
    const bool fresh = before.sandbox.phase == Phase::kNone;
    before.busy = known.busy;
    after.busy = known.busy_now;
    before.generation = after.generation = known.generation;
    if (!fresh && (before.sandbox.spec != after.sandbox.spec ||
                   before.sandbox.wants_running != after.sandbox.wants_running))
      ++after.generation;
    after.resource_version = position_ + 1;
    const json::object object = render_sandbox(after, now_);
    // Most changes are of the phase; only the others are looked at closely.
    const bool clear = fresh || notes_.retell.contains(uid) || before.busy != after.busy ||
                       before.sandbox.phase != after.sandbox.phase;
    if (!clear && same(render_sandbox(before, now_), object)) return;
    ++position_;
    const json::object was = fresh ? json::object() : selectable(before.sandbox);
    add(after.sandbox.project, "sandboxes", fresh ? "ADDED" : "MODIFIED", object, fresh ? nullptr : &was);
    const auto* labels = object.at("metadata").get_object().if_contains("labels");
    const bool own = note != notes_.sandboxes.end() || notes_.retell.contains(uid);
    rows_.push_back({uid, after.resource_version, after.generation, after.busy, own,
                     std::string(to_string(after.sandbox.phase)), labels ? json::serialize(*labels) : "{}"});
  }

  // The last state of what is gone, under the position of its end.
  void tell_gone(const SandboxNote& note, int64_t generation) {
    gone_.push_back(note.after.uid.str());
    if (exists(note.before)) {
      SandboxView last{note.before, false, generation, ++position_};
      json::object object = render_sandbox(last, now_);
      const json::object was = object;
      add(note.after.project, "sandboxes", "DELETED", object, &was);
    }
    for (const auto& process : note.gone) {
      const json::object object{{"apiVersion", "nodus.dev/v1"},
                                {"kind", "Process"},
                                {"metadata",
                                 {{"name", process.name},
                                  {"namespace", project_name(note.after.project)},
                                  {"uid", process.uid},
                                  {"resourceVersion", std::to_string(++position_)},
                                  {"labels", {{"nodus.dev/sandbox", note.after.name}}},
                                  {"creationTimestamp", to_rfc3339(from_micros(process.admitted_us))}}},
                                {"spec", {{"sandbox", note.after.name}}},
                                {"status", {{"phase", "Ended"}}}};
      add(note.after.project, "processes", "DELETED", object, &object);
    }
  }

  void tell_process(const std::string& uid, const ProcessNote& note) {
    const bool fresh = note.before.admitted.uid.empty();
    const json::object was = fresh ? json::object() : render_process({note.before, 0});
    if (!fresh && !note.gone && was == render_process({note.after, 0})) return;
    const json::object object = render_process({note.after, ++position_});
    add(note.after.admitted.project, "processes",
        note.gone ? "DELETED"
        : fresh   ? "ADDED"
                  : "MODIFIED",
        object, fresh ? nullptr : &was);
    if (!note.gone) process_rows_.emplace_back(uid, position_);
  }

  void tell_events() {
    std::vector<std::string> uids;
    std::vector<std::string_view> uid, project, kind, object_uid, object_name, type, reason, message;
    std::vector<int64_t> count, version;
    for (size_t i = 0; i < notes_.events.size(); ++i) uids.push_back(random_uuid());
    size_t next = 0;
    for (const auto& [key, note] : notes_.events) {
      uid.push_back(uids[next++]);
      project.push_back(note.object.project.str());
      kind.push_back(note.object.kind);
      object_uid.push_back(note.object.uid);
      object_name.push_back(note.object.name);
      type.push_back(note.type);
      reason.push_back(note.reason);
      message.push_back(note.message);
      count.push_back(note.count);
      version.push_back(++position_);
    }
    tx_.conn().prepare(
        "object_events_add",
        "SELECT ord, uid, project, name, object_kind, object_uid, object_name, type, reason,"
        " message, count, first_us, last_us FROM object_events_add($1, $2, $3, $4, $5, $6, $7, $8,"
        " $9, $10, $11, $12) ORDER BY ord = 0, ord");
    const auto rows = tx_.exec_prepared(
        "object_events_add", kEventsOfObject, to_micros(now_), pg::text_array(uid), pg::text_array(project),
        pg::text_array(kind), pg::text_array(object_uid), pg::text_array(object_name), pg::text_array(type),
        pg::text_array(reason), pg::text_array(message), pg::int8_array(count), pg::int8_array(version));
    for (const auto& row : rows) {
      const auto ord = row[0].as<int64_t>();
      if (ord == 0) {
        tell_event(row, ++position_, "DELETED");
        continue;
      }
      const bool fresh = row[10].as<int64_t>() == count[static_cast<size_t>(ord - version.front())];
      tell_event(row, ord, fresh ? "ADDED" : "MODIFIED");
    }
  }

  void tell_event(const pqxx::row& row, int64_t position, std::string type) {
    const ObjectEvent event{row[1].as<std::string>(),
                            ProjectId(row[2].as<std::string>()),
                            row[3].as<std::string>(),
                            row[4].as<std::string>(),
                            row[5].as<std::string>(),
                            row[6].as<std::string>(),
                            row[7].as<std::string>(),
                            row[8].as<std::string>(),
                            row[9].as<std::string>(),
                            row[10].as<int64_t>(),
                            from_micros(row[11].as<int64_t>()),
                            from_micros(row[12].as<int64_t>()),
                            position};
    const json::object object = render_event(event);
    const bool fresh = type == "ADDED";
    add(event.project, "events", std::move(type), object, fresh ? nullptr : &object);
    changes_.back().position = position;
  }

  void expire_events() {
    const auto rows = tx_.exec_params(
        "DELETE FROM object_events WHERE uid IN (SELECT e.uid FROM object_events e WHERE e.expires_us <= $1 "
        "ORDER BY e.expires_us LIMIT $2) RETURNING 0, uid, project, name, object_kind, object_uid, "
        "object_name, "
        "type, reason, message, count, first_us, last_us",
        to_micros(now_), notes_.expire);
    for (const auto& row : rows) tell_event(row, ++position_, "DELETED");
  }

  // The Events of what is gone now stay for a day.
  void let_events_expire() {
    std::vector<std::string_view> uids;
    for (const auto& [uid, note] : notes_.sandboxes)
      if (note.after.phase == Phase::kDeleted) uids.push_back(uid);
    if (uids.empty()) return;
    tx_.exec_params0("UPDATE object_events SET expires_us = $2 WHERE object_uid = ANY ($1)",
                     pg::text_array(uids), to_micros(now_ + kEventsOfGone));
  }

  void add(const ProjectId& project, std::string resource, std::string type, const json::object& object,
           const json::object* was) {
    changes_.push_back({position_, project.str(), std::move(resource), std::move(type),
                        json::serialize(object), was ? json::serialize(selectable(*was)) : ""});
  }

  static bool same(json::object before, json::object after) {
    for (auto* object : {&before, &after}) {
      object->at("metadata").get_object().erase("resourceVersion");
      object->at("status").get_object().erase("cost");  // it grows with time, not with changes
    }
    return before == after;
  }

  void write() {
    std::vector<int64_t> c_position, s_version, s_generation, p_version;
    std::vector<int32_t> s_busy, s_own;
    std::vector<std::string_view> c_project, c_resource, c_type, c_object, c_was, s_uid, s_phase, s_labels,
        p_uid;
    for (const auto& c : changes_) {
      c_position.push_back(c.position);
      c_project.push_back(c.project);
      c_resource.push_back(c.resource);
      c_type.push_back(c.type);
      c_object.push_back(c.object);
      c_was.push_back(c.was);
    }
    for (const auto& s : rows_) {
      s_uid.push_back(s.uid);
      s_version.push_back(s.version);
      s_generation.push_back(s.generation);
      s_busy.push_back(s.busy ? 1 : 0);
      s_own.push_back(s.own ? 1 : 0);
      s_phase.push_back(s.phase);
      s_labels.push_back(s.labels);
    }
    for (const auto& [uid, version] : process_rows_) {
      p_uid.push_back(uid);
      p_version.push_back(version);
    }
    using namespace pg::arrays;
    tx_.later({"changes_write",
               "SELECT changes_write($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,"
               " $17)",
               to_micros(now_), int8s(c_position), texts(c_project), texts(c_resource), texts(c_type),
               texts(c_object), texts(c_was), texts(s_uid), int8s(s_version), int8s(s_generation),
               int4s(s_busy), int4s(s_own), texts(s_phase), texts(s_labels),
               texts({gone_.begin(), gone_.end()}), texts(p_uid), int8s(p_version)});
  }

  pg::Tx& tx_;
  const Notes notes_;
  const Instant now_;
  int64_t position_ = 0;  // the last one given out
  std::map<std::string, Known> known_;
  std::vector<Change> changes_;
  std::vector<SandboxRow> rows_;
  std::vector<std::string> gone_;  // Sandboxes
  std::vector<std::pair<std::string, int64_t>> process_rows_;
};

}  // namespace

void write_changes(pg::Tx& tx, std::vector<std::any>& notes, Instant now) {
  Writer(tx, fold(notes), now).run();
}

}  // namespace nodus::lifecycle
