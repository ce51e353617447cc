#include "services/scheduler/adapters/read_model.hpp"

#include "services/scheduler/adapters/codec/codec.hpp"

namespace nodus::scheduler {
namespace {

pqxx::binarystring binary(const std::string& bytes) {
  return pqxx::binarystring(bytes.data(), bytes.size());
}

bool same_orders(const SlotState& a, const SlotState& b) {
  return (a.phase == Phase::kStopping) == (b.phase == Phase::kStopping) && a.stop_reason == b.stop_reason &&
         a.idle_since == b.idle_since;
}

void write_deadline(pg::Tx& tx, const SlotState& before, const SlotState& after) {
  if (after.pending() && (!before.pending() || before.expires_at != after.expires_at))
    tx.later({"offer_put",
              "INSERT INTO deadlines (stream, kind, start, due_us) VALUES ($1, 'offer', $2, $3) "
              "ON CONFLICT (stream, kind) DO UPDATE SET start = excluded.start, due_us = excluded.due_us",
              slot_stream(after.order.sandbox), after.order.start, to_micros(after.expires_at)});
  if (before.pending() && !after.pending())
    tx.later({"offer_drop", "DELETE FROM deadlines WHERE stream = $1 AND kind = 'offer'",
              slot_stream(after.order.sandbox)});
}

void write_waiting(pg::Tx& tx, const SlotState& before, const SlotState& after) {
  const bool waited = before.phase == Phase::kFunded, waits = after.phase == Phase::kFunded;
  if (waits && !waited) {
    const auto& o = after.order;
    tx.later({"waiting_add",
              "INSERT INTO waiting_starts (sandbox_uid, start, org, cpu_milli, memory_bytes, disk_bytes, "
              "since_us, "
              "whole) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
              o.sandbox.str(), o.start, o.org.str(), o.shape.cpu_milli, o.shape.memory_bytes,
              o.shape.disk_bytes, to_micros(after.last_at), !after.machine_type.empty()});
  }
  if (waited && !waits)
    tx.later(
        {"waiting_drop", "DELETE FROM waiting_starts WHERE sandbox_uid = $1", after.order.sandbox.str()});
}

void write_desired(pg::Tx& tx, const SlotState& before, const SlotState& after) {
  const auto& uid = after.order.sandbox.str();
  const int phase = static_cast<int>(after.phase);
  if (after.live() && !before.live()) {
    const auto desired = codec::to_desired(after);
    tx.later({"desired_add",
              "INSERT INTO desired_slots (sandbox_uid, machine, epoch, changes, phase, desired) "
              "VALUES ($1, $2, $3, 1, $4, $5)",
              uid, after.machine.str(), after.epoch, phase, binary(desired)});
  } else if (after.live() && !same_orders(before, after)) {
    const auto desired = codec::to_desired(after);
    tx.later(
        {"desired_orders",
         "UPDATE desired_slots SET changes = changes + 1, phase = $2, desired = $3 WHERE sandbox_uid = $1",
         uid, phase, binary(desired)});
  } else if (after.live() && before.phase != after.phase) {
    tx.later({"desired_phase", "UPDATE desired_slots SET phase = $2 WHERE sandbox_uid = $1", uid, phase});
  } else if (before.live() && !after.live()) {
    // What the row counted moves to the machine, plus one for its going away. The machine's head is locked.
    tx.later({"desired_drop",
              "WITH gone AS (DELETE FROM desired_slots WHERE sandbox_uid = $1 RETURNING changes) "
              "UPDATE machines SET past_changes = past_changes + 1 + (SELECT changes FROM gone) WHERE "
              "machine = $2",
              uid, before.machine.str()});
  }
}

constexpr const char* kMachineColumns =
    "m.machine, m.org, m.runtime, m.data_path, m.incarnation, m.cpu_milli, m.memory_bytes, m.disk_bytes, "
    "m.used_cpu_milli, m.used_memory_bytes, m.used_disk_bytes, m.past_changes, m.seen_us, "
    "m.lost_incarnation";

MachineRow read_machine(const pqxx::row& row) {
  MachineRow m;
  m.machine = MachineId(row[0].as<std::string>());
  m.org = OrgId(row[1].as<std::string>());
  m.runtime = row[2].as<std::string>();
  m.data_path = row[3].as<std::string>();
  m.incarnation = row[4].as<std::string>();
  m.capacity = {row[5].as<int64_t>(), row[6].as<int64_t>(), row[7].as<int64_t>()};
  m.used = {row[8].as<int64_t>(), row[9].as<int64_t>(), row[10].as<int64_t>()};
  m.version = row[11].as<int64_t>();
  m.seen_at = from_micros(row[12].as<int64_t>());
  m.lost_incarnation = row[13].as<std::string>();
  return m;
}

class PostgresReadModel final : public ReadModel {
 public:
  explicit PostgresReadModel(pg::Pool& pool) : pool_(pool) {}

  std::function<void(pg::Tx&)> slot_changed(const SlotState& before, const SlotState& after) override {
    return [before, after](pg::Tx& tx) {
      write_deadline(tx, before, after);
      write_waiting(tx, before, after);
      write_desired(tx, before, after);
    };
  }

  std::function<void(pg::Tx&)> machine_changed(const MachineState& m) override {
    return [m](pg::Tx& tx) {
      tx.later(
          {"machine_put",
           "INSERT INTO machines (machine, org, runtime, data_path, incarnation, cpu_milli, memory_bytes, "
           "disk_bytes, used_cpu_milli, used_memory_bytes, used_disk_bytes, lost_incarnation) "
           "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (machine) DO UPDATE SET "
           "runtime = excluded.runtime, data_path = excluded.data_path, incarnation = excluded.incarnation, "
           "cpu_milli = excluded.cpu_milli, memory_bytes = excluded.memory_bytes, "
           "disk_bytes = excluded.disk_bytes, used_cpu_milli = excluded.used_cpu_milli, "
           "used_memory_bytes = excluded.used_memory_bytes, used_disk_bytes = excluded.used_disk_bytes, "
           "lost_incarnation = excluded.lost_incarnation",
           m.machine.str(), m.org.str(), m.runtime, m.data_path, m.incarnation, m.capacity.cpu_milli,
           m.capacity.memory_bytes, m.capacity.disk_bytes, m.used.cpu_milli, m.used.memory_bytes,
           m.used.disk_bytes, m.lost_incarnation});
    };
  }

  std::function<void(pg::Tx&)> purchased(const OrgId& org, Instant at) override {
    return [org, at](pg::Tx& tx) {
      tx.later({"purchase_add",
                "INSERT INTO purchases (org, first_us) VALUES ($1, $2) ON CONFLICT DO NOTHING", org.str(),
                to_micros(at)});
    };
  }

  bool has_purchased(pg::Tx& tx, const OrgId& org) override {
    return !tx.exec_params("SELECT FROM purchases WHERE org = $1", org.str()).empty();
  }

  Result<std::optional<MachineRow>> machine(const MachineId& id) override {
    return pool_.with_tx([&](pg::Tx& tx) -> Result<std::optional<MachineRow>> {
      // One statement, so that the version and the list are of one instant.
      const auto rows =
          tx.exec_params(std::string("SELECT ") + kMachineColumns +
                             ", d.sandbox_uid, d.epoch, d.changes, d.phase, d.desired FROM machines m "
                             "LEFT JOIN desired_slots d ON d.machine = m.machine WHERE m.machine = $1",
                         id.str());
      if (rows.empty()) return std::nullopt;
      MachineRow m = read_machine(rows[0]);
      for (const auto& row : rows) {
        if (row[14].is_null()) break;
        const pqxx::binarystring desired(row[18]);
        m.slots.push_back({SandboxUid(row[14].as<std::string>()), row[15].as<int64_t>(),
                           row[16].as<int64_t>(), static_cast<Phase>(row[17].as<int>()), desired.str()});
        m.version += m.slots.back().changes;
      }
      return m;
    });
  }

  Result<std::vector<MachineRow>> machines() override {
    return pool_.with_tx([&](pg::Tx& tx) -> Result<std::vector<MachineRow>> {
      std::vector<MachineRow> out;
      for (const auto& row : tx.exec(std::string("SELECT ") + kMachineColumns +
                                     " FROM machines m ORDER BY m.machine LIMIT 10000"))
        out.push_back(read_machine(row));
      return out;
    });
  }

  Result<void> machine_seen(const MachineId& machine, Instant at) override {
    return pool_.with_tx([&](pg::Tx& tx) -> Result<void> {
      tx.exec_params0("UPDATE machines SET seen_us = $2 WHERE machine = $1", machine.str(), to_micros(at));
      return {};
    });
  }

  Result<std::vector<WaitingStart>> waiting(int per_org) override {
    return pool_.with_tx([&](pg::Tx& tx) -> Result<std::vector<WaitingStart>> {
      std::vector<WaitingStart> out;
      for (const auto& row : tx.exec_params(
               "SELECT sandbox_uid, start, org, cpu_milli, memory_bytes, disk_bytes, whole FROM (SELECT *, "
               "row_number() OVER (PARTITION BY org ORDER BY since_us, sandbox_uid) AS place "
               "FROM waiting_starts) w WHERE place <= $1 ORDER BY since_us, sandbox_uid",
               per_org))
        out.push_back({SandboxUid(row[0].as<std::string>()),
                       row[1].as<int64_t>(),
                       OrgId(row[2].as<std::string>()),
                       {row[3].as<int64_t>(), row[4].as<int64_t>(), row[5].as<int64_t>()},
                       row[6].as<bool>()});
      return out;
    });
  }

  Result<int64_t> waiting_count() override {
    return pool_.with_tx([&](pg::Tx& tx) -> Result<int64_t> {
      return tx.exec1("SELECT count(*) FROM waiting_starts")[0].as<int64_t>();
    });
  }

  Result<std::vector<DueOffer>> due_offers(Instant now, int limit) override {
    return pool_.with_tx([&](pg::Tx& tx) -> Result<std::vector<DueOffer>> {
      std::vector<DueOffer> out;
      for (const auto& row : tx.exec_params(
               "SELECT substr(stream, 6), start FROM deadlines WHERE due_us <= $1 AND kind = 'offer' "
               "ORDER BY due_us LIMIT $2",
               to_micros(now), limit))
        out.push_back({SandboxUid(row[0].as<std::string>()), row[1].as<int64_t>()});
      return out;
    });
  }

  Result<std::optional<Instant>> next_due() override {
    return pool_.with_tx([&](pg::Tx& tx) -> Result<std::optional<Instant>> {
      const auto row = tx.exec1("SELECT min(due_us) FROM deadlines WHERE kind = 'offer'");
      if (row[0].is_null()) return std::nullopt;
      return from_micros(row[0].as<int64_t>());
    });
  }

 private:
  pg::Pool& pool_;
};

}  // namespace

std::unique_ptr<ReadModel> make_read_model(pg::Pool& pool) {
  return std::make_unique<PostgresReadModel>(pool);
}

}  // namespace nodus::scheduler
