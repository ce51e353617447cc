#include "services/scheduler/operator.hpp"

#include <fmt/core.h>

#include "libs/eventlog/postgres_log.hpp"
#include "services/scheduler/adapters/inputs.hpp"
#include "services/scheduler/adapters/read_model.hpp"

namespace nodus::scheduler {
namespace {

constexpr int kListed = 200;

std::string used_of(int64_t used, int64_t whole, std::string (*format)(int64_t)) {
  return format(used) + "/" + format(whole);
}

bool is_live(const MachineRow& m, Micros lease, Instant now) {
  return now - m.seen_at <= lease + lease / 3;  // seen_at is written every third of a lease
}

std::string lease_of(const MachineRow& m, Micros lease, Instant now) {
  if (m.seen_at == kNever) return "never synced";
  const auto age = std::chrono::duration_cast<Seconds>(now - m.seen_at);
  const char* word = m.lost() ? "lost" : is_live(m, lease, now) ? "live" : "ended";
  return fmt::format("{}, seen {}s ago", word, age.count());
}

Result<MachineRow> machine_row(ReadModel& rows, const MachineId& id) {
  auto row = rows.machine(id);
  if (!row) return std::unexpected(std::move(row.error()));
  if (!*row)
    return fail(Code::kNotFound, "MachineUnknown",
                "No machine " + id.str() + " ever registered; `nodus-scheduler machines` lists them.");
  return std::move(**row);
}

// Releases what the lost machine still holds; one line for each.
Result<std::string> release_all(eventlog::EventLog& log, Slots& slots, const MachineRow& machine) {
  std::vector<eventlog::Work> works;
  for (const auto& slot : machine.slots)
    works.push_back(slots.lose(slot.sandbox, {machine.machine, slot.epoch, machine.seen_at}));
  std::string out;
  if (works.empty()) return out;
  const auto results = log.run(works);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i]) return std::unexpected(results[i].error());
    if (*results[i] != "changed") continue;
    auto slot = slots.state(machine.slots[i].sandbox);
    if (!slot) return std::unexpected(std::move(slot.error()));
    out += fmt::format("  Sandbox {} (project {}, {}), start {}: released, billed until {}\n",
                       slot->order.sandbox.str(), slot->order.project.str(), slot->order.name,
                       slot->order.start, to_rfc3339(slot->times.released_at));
  }
  return out;
}

}  // namespace

Result<std::string> list_machines(const Config& config, const Clock& clock) {
  pg::Pool pool(config.database, 1);
  auto machines = make_read_model(pool)->machines();
  if (!machines) return std::unexpected(std::move(machines.error()));
  constexpr const char* kRow = "{:<24} {:<16} {:<8} {:<14} {:<18} {:<18} {}\n";
  std::string out = fmt::format(kRow, "MACHINE", "ORG", "RUNTIME", "CPU", "MEMORY", "DISK", "LEASE");
  for (const auto& m : *machines)
    out += fmt::format(kRow, m.machine.str(), m.org.str(), m.runtime,
                       used_of(m.used.cpu_milli, m.capacity.cpu_milli, config::format_cpu),
                       used_of(m.used.memory_bytes, m.capacity.memory_bytes, config::format_bytes),
                       used_of(m.used.disk_bytes, m.capacity.disk_bytes, config::format_bytes),
                       lease_of(m, config.channel.lease, clock.now()));
  return out;
}

Result<std::string> lose_machine(const Config& config, const Clock& clock, const std::string& name,
                                 bool force) {
  pg::Pool pool(config.database, 2);
  auto log = eventlog::make_postgres_log(clock, pool, config.bus.partitions);
  if (!log) return std::unexpected(std::move(log.error()));
  const auto rows = make_read_model(pool);
  Fleet nobody(clock, config.channel.lease);
  Slots slots(clock, **log, *rows, nobody, config.slots);
  const MachineId id(name);
  auto machine = machine_row(*rows, id);
  if (!machine) return std::unexpected(std::move(machine.error()));
  const bool already = machine->lost();
  if (!already && !force && is_live(*machine, config.channel.lease, clock.now()))
    return fail(
        Code::kConflict, "MachineIsLive",
        fmt::format("Machine {} reported at {}: nothing was changed. Wait until its lease has ended, or "
                    "say --force when it is certain that it is destroyed or cut off.",
                    name, to_rfc3339(machine->seen_at)));
  const auto declared = (*log)->run(std::vector{slots.loss(id)});
  if (!declared.front()) return std::unexpected(declared.front().error());
  machine = machine_row(*rows, id);  // from here on it takes nothing more
  if (!machine) return std::unexpected(std::move(machine.error()));
  auto released = release_all(**log, slots, *machine);
  if (!released) return std::unexpected(std::move(released.error()));
  return fmt::format(
      "Machine {} {} lost; its last report was at {}. It gets no work until it has destroyed what "
      "it has and registered anew.\n{}",
      name, already ? "was already" : "is declared", to_rfc3339(machine->seen_at),
      released->empty() ? "It held nothing.\n" : *released);
}

Result<std::string> list_parked(const Config& config) {
  pg::Pool pool(config.database, 1);
  auto parked = bus::list_parked(pool, kListed);
  if (!parked) return std::unexpected(std::move(parked.error()));
  std::string out;
  for (const auto& p : *parked)
    out += fmt::format("{} {} {} {} {}: {}\n", p.id, to_rfc3339(p.at), p.message.topic, p.message.stream,
                       p.message.type, p.error);
  return out.empty() ? "Nothing is parked.\n" : out;
}

Result<std::string> replay_parked(const Config& config, const Clock& clock, const std::string& topic,
                                  const std::string& stream) {
  if (topic != "lifecycle" && topic != "metering")
    return fail(Code::kInvalid, "Invalid", "The topic is lifecycle or metering.");
  pg::Pool pool(config.database, 2);
  auto log = eventlog::make_postgres_log(clock, pool, config.bus.partitions);
  if (!log) return std::unexpected(std::move(log.error()));
  const auto rows = make_read_model(pool);
  Fleet nobody(clock, config.channel.lease);  // a funded start waits, and the running scheduler places it
  Slots slots(clock, **log, *rows, nobody, config.slots);
  auto applied = bus::replay_parked(**log, pool, make_route(topic, slots), topic, stream);
  if (!applied) return std::unexpected(std::move(applied.error()));
  return fmt::format("{} messages applied.\n", *applied);
}

Result<std::string> skip_parked(const Config& config, const std::string& topic, const std::string& stream) {
  pg::Pool pool(config.database, 1);
  auto skipped = bus::skip_parked(pool, topic, stream);
  if (!skipped) return std::unexpected(std::move(skipped.error()));
  return fmt::format("{} messages skipped.\n", *skipped);
}

}  // namespace nodus::scheduler
