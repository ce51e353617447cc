// Read models and deadlines of lifecycle, written in the transaction of the events they follow from.
#include "services/lifecycle/adapters/changes.hpp"
#include "services/lifecycle/app/quotas.hpp"
#include "services/lifecycle/app/works.hpp"

namespace nodus::lifecycle {

namespace {

void write_deadlines(pg::Tx& tx, const std::string& stream, const std::vector<Deadline>& before,
                     const std::vector<Deadline>& after) {
  for (const auto& old : before) {
    bool kept = false;
    for (const auto& now : after) kept = kept || now.kind == old.kind;
    if (!kept)
      tx.later({"deadline_drop", "DELETE FROM deadlines WHERE stream = $1 AND kind = $2", stream, old.kind});
  }
  for (const auto& now : after) {
    bool same = false;
    for (const auto& old : before) same = same || old == now;
    if (same) continue;
    tx.later({"deadline_put",
              "INSERT INTO deadlines (stream, kind, due_us) VALUES ($1, $2, $3) "
              "ON CONFLICT (stream, kind) DO UPDATE SET due_us = excluded.due_us",
              stream, now.kind, to_micros(now.due)});
  }
}

// The rows of a Sandbox that is gone; watchers are told of them.
void delete_sandbox_row(pg::Tx& tx, SandboxNote& note) {
  const std::string& uid = note.after.uid.str();
  for (const auto& row : tx.exec_params(
           "DELETE FROM processes WHERE sandbox_uid = $1 AND ended RETURNING uid, name, admitted_us", uid))
    note.gone.push_back({row[0].as<std::string>(), row[1].as<std::string>(), row[2].as<int64_t>()});
  tx.exec_params0("DELETE FROM sandboxes WHERE uid = $1", uid);
}

void write_sandbox_row(pg::Tx& tx, SandboxNote& note) {
  const Sandbox& before = note.before;
  const Sandbox& after = note.after;
  if (before.phase == Phase::kNone) {
    tx.later({"sandbox_add",
              "INSERT INTO sandboxes (uid, org, project, name, released_at_us) VALUES ($1, $2, $3, $4, $5)",
              after.uid.str(), after.org.str(), after.project.str(), after.name,
              after.start_open ? std::nullopt : std::optional<int64_t>(to_micros(after.created_at))});
  } else if (after.phase == Phase::kDeleted) {
    delete_sandbox_row(tx, note);
    if (!after.spec.env.empty()) tx.exec_params0("DELETE FROM sandbox_env WHERE uid = $1", after.uid.str());
    tx.exec_params0("INSERT INTO outputs_to_remove (sandbox_uid) VALUES ($1) ON CONFLICT DO NOTHING",
                    after.uid.str());
  } else if (before.epoch != after.epoch || before.start_open != after.start_open) {
    tx.later({"sandbox_moved", "UPDATE sandboxes SET epoch = $2, released_at_us = $3 WHERE uid = $1",
              after.uid.str(), after.epoch,
              after.start_open ? std::nullopt : std::optional<int64_t>(to_micros(after.phase_since))});
  }
}

}  // namespace

void project_sandbox(eventlog::Unit& unit, const Sandbox& before, const Sandbox& after) {
  auto note = std::make_shared<SandboxNote>(SandboxNote{before, after, {}});
  unit.stage(note);
  unit.project([note](pg::Tx& tx) {
    write_sandbox_row(tx, *note);
    project_usage(tx, note->before, note->after);
    write_deadlines(tx, sandbox_stream(note->after.uid), deadlines_of(note->before),
                    deadlines_of(note->after));
  });
}

void project_env(eventlog::Unit& unit, const SandboxUid& uid, const std::string& sealed) {
  unit.project([uid, sealed](pg::Tx& tx) {
    tx.exec_params0("INSERT INTO sandbox_env (uid, sealed) VALUES ($1, $2)", uid.str(),
                    pqxx::binarystring(sealed));
  });
}

void project_release(eventlog::Unit& unit, const Sandbox& before, const ReleaseRecorded& release) {
  const bool lost = release.failure == "NodeLost" || release.failure == "Crashed";
  // What the machine says of its commands comes first, if there is a machine left to say it.
  const Instant over = release.failure == "NodeLost" ? Instant{} : release.at;
  unit.project([uid = before.uid, epoch = before.epoch, lost, over](pg::Tx& tx) {
    tx.exec_params0(
        "UPDATE processes SET over_us = $3, over_reason = $4 "
        "WHERE sandbox_uid = $1 AND epoch = $2 AND NOT ended",
        uid.str(), epoch, to_micros(over), lost ? "NodeLost" : "ParentStopped");
  });
}

void project_process(eventlog::Unit& unit, const Process& before, const Process& after) {
  auto note = std::make_shared<ProcessNote>(ProcessNote{before, after, false});
  unit.stage(note);
  unit.project([note](pg::Tx& tx) {
    const auto& p = note->after.admitted;
    if (note->before.admitted.uid.empty()) {
      tx.later({"process_add",
                "INSERT INTO processes (uid, sandbox_uid, project, name, epoch, admitted_us, expires_us) "
                "VALUES ($1, $2, $3, $4, $5, $6, $7)",
                p.uid.str(), p.sandbox.str(), p.project.str(), p.name, p.epoch, to_micros(p.at),
                to_micros(p.at + p.timeout)});
    } else if (note->after.ended) {
      tx.conn().prepare("process_end",
                        "WITH gone AS (DELETE FROM processes WHERE uid = $1 AND NOT EXISTS "
                        "(SELECT 1 FROM sandboxes WHERE sandboxes.uid = processes.sandbox_uid)) "
                        "UPDATE processes SET ended = true WHERE uid = $1 AND EXISTS "
                        "(SELECT 1 FROM sandboxes WHERE sandboxes.uid = processes.sandbox_uid)");
      const auto kept = tx.exec_prepared("process_end", p.uid.str());
      note->gone = kept.affected_rows() == 0;
    }
  });
}

}  // namespace nodus::lifecycle
