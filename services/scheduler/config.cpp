#include "services/scheduler/config.hpp"

namespace nodus::scheduler {
namespace {

// "machine=org" each.
Result<std::unordered_map<MachineId, OrgId>> parse_machines(const std::vector<std::string>& entries) {
  std::unordered_map<MachineId, OrgId> out;
  for (const auto& entry : entries) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == entry.size())
      return fail(Code::kInvalid, "Invalid",
                  "scheduler.machines: \"" + entry + "\" is not machine=organization.");
    if (!out.emplace(MachineId(entry.substr(0, equals)), OrgId(entry.substr(equals + 1))).second)
      return fail(Code::kInvalid, "Invalid", "scheduler.machines: \"" + entry + "\" names a machine twice.");
  }
  return out;
}

// "name=cpu,memory,disk" each.
Result<std::vector<MachineType>> parse_types(const std::vector<std::string>& entries) {
  std::vector<MachineType> out;
  for (const auto& entry : entries) {
    const auto equals = entry.find('='), first = entry.find(','), second = entry.rfind(',');
    const bool whole = equals != std::string::npos && equals > 0 && first != std::string::npos &&
                       first > equals && second > first;
    const auto part = [&](size_t from, size_t to) { return entry.substr(from + 1, to - from - 1); };
    const auto cpu = config::parse_cpu_milli(whole ? part(equals, first) : "");
    const auto memory = config::parse_bytes(whole ? part(first, second) : "");
    const auto disk = config::parse_bytes(whole ? part(second, entry.size()) : "");
    if (!cpu || !memory || !disk || *cpu <= 0 || *memory <= 0 || *disk <= 0)
      return fail(
          Code::kInvalid, "Invalid",
          "scheduler.machineTypes: \"" + entry + "\" is not name=cpu,memory,disk, such as m8=8,32Gi,200Gi.");
    out.push_back({entry.substr(0, equals), {*cpu, *memory, *disk}});
  }
  return out;
}

}  // namespace

Result<Config> read_config(std::shared_ptr<const config::Document> document, bool serving) {
  config::Reader in(std::move(document));
  Config c;
  c.log_level = in.text("log.level", "info");
  c.http.listen = in.text("http.listen", "127.0.0.1:7401");
  c.database.url = in.text("database.url");
  c.database.schema = "scheduler";
  c.database.application_name = "nodus-scheduler";
  c.database_pool = static_cast<int>(in.integer("database.pool", 12, 4, 200));
  c.bus.partitions = static_cast<int>(in.integer("log.partitions", 4, 1, 64));
  c.bus.kind = in.choice("bus.kind", {"log", "kafka"}, "log");
  c.bus.kafka_brokers = in.text("bus.kafkaBrokers", "");
  c.slots.offer_ttl = in.duration("scheduler.offerTtl", Seconds(60));
  c.channel.lease = in.duration("scheduler.lease", Seconds(30));
  c.channel.poll = in.duration("scheduler.poll", Seconds(5));
  c.fleet.default_org = OrgId(in.text("scheduler.defaultOrg", ""));
  const auto machines = in.texts("scheduler.machines", {});
  const auto types = in.texts("scheduler.machineTypes", {});
  const auto shared_cpu = in.text("scheduler.sharedLimit.cpu", "3");
  c.slots.shared.memory_bytes = in.quantity("scheduler.sharedLimit.memory", "11Gi");
  if (serving) c.channel.node_secret = in.secret("NODUS_NODE_SECRET");
  if (auto faults = in.finish(); !faults) return std::unexpected(std::move(faults.error()));
  auto listed = parse_machines(machines);
  if (!listed) return std::unexpected(std::move(listed.error()));
  c.fleet.machines = std::move(*listed);
  auto known = parse_types(types);
  if (!known) return std::unexpected(std::move(known.error()));
  c.slots.shared.types = std::move(*known);
  const auto cpu = config::parse_cpu_milli(shared_cpu);
  if (!cpu) return fail(Code::kInvalid, "Invalid", "scheduler.sharedLimit.cpu: " + cpu.error().message);
  c.slots.shared.cpu_milli = *cpu;
  if (c.channel.poll * 2 > c.channel.lease)
    return fail(Code::kInvalid, "Invalid", "scheduler.poll must be at most half of scheduler.lease.");
  c.printed = in.print();
  return c;
}

}  // namespace nodus::scheduler
