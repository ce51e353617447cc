#include "services/scheduler/app/slots.hpp"

#include <tuple>

#include "libs/base/check.hpp"
#include "libs/eventlog/aggregate.hpp"
#include "services/scheduler/adapters/codec/codec.hpp"

namespace nodus::scheduler {
namespace {

constexpr size_t kCandidates = 4;

int64_t start_to_place(const SlotCommand& command) {
  if (const auto* fund = std::get_if<Fund>(&command)) return fund->start;
  if (const auto* place = std::get_if<Place>(&command)) return place->start;
  return 0;
}

Result<MachineState> load_machine(eventlog::Unit& unit, const MachineId& id) {
  return eventlog::load<MachineAggregate, MachineCodec>(unit, machine_stream(id));
}

// The machines' heads are locked in this transaction: room that is found here is room.
Result<std::optional<Room>> find_room(eventlog::Unit& unit, const SlotState& slot,
                                      const std::vector<MachineId>& machines) {
  const auto& [org, shape] = std::tie(slot.order.org, slot.order.shape);
  for (const auto& id : machines) {
    auto machine = load_machine(unit, id);
    if (!machine) return std::unexpected(machine.error());
    const bool room =
        slot.machine_type.empty() ? machine->can_take(org, shape) : machine->can_take_whole(org, shape);
    if (room) return Room{id, machine->data_path};
  }
  return std::nullopt;
}

// All of it, when it is a machine of its own.
Result<Shape> taken(eventlog::Unit& unit, const SlotState& slot) {
  if (slot.machine_type.empty()) return slot.order.shape;
  const auto machine = load_machine(unit, slot.machine);
  if (!machine) return std::unexpected(machine.error());
  return machine->capacity;
}

}  // namespace

bool Slots::shares(eventlog::Unit& unit, const Order& order) {
  return options_.shared.within(order.shape) || rows_.has_purchased(*unit.sql(), order.org);
}

eventlog::Work Slots::first_purchase(const OrgId& org, Instant at) {
  eventlog::Work work;
  work.streams = {fleet_stream(org)};
  work.decide = [this, org, at](eventlog::Unit& unit) -> Result<std::string> {
    unit.project(rows_.purchased(org, at));
    return std::string();
  };
  return work;
}

Result<std::string> Slots::decide(eventlog::Unit& unit, const SandboxUid& sandbox, const SlotCommand& command,
                                  const std::vector<MachineId>& machines) {
  const auto stream = slot_stream(sandbox);
  SlotContext context{clock_.now(), options_.offer_ttl, std::nullopt, waiting_ < options_.waiting_limit};
  if (const auto* planned = std::get_if<PlanStart>(&command); planned && !shares(unit, planned->order))
    context.machine_type = options_.shared.type_for(planned->order.shape);
  if (const int64_t start = start_to_place(command); start > 0 && !machines.empty()) {
    auto slot = eventlog::load<SlotAggregate, SlotCodec>(unit, stream);
    if (!slot) return std::unexpected(slot.error());
    if (slot->pending() && slot->order.start == start) {
      auto room = find_room(unit, *slot, machines);
      if (!room) return std::unexpected(room.error());
      context.room = std::move(*room);
    }
  }
  auto step = eventlog::apply<SlotAggregate, SlotCodec>(unit, stream, command, context);
  if (!step) return std::unexpected(step.error());
  for (const auto& event : step->events) {
    std::optional<MachineCommand> effect;
    if (const auto* e = std::get_if<Reserved>(&event)) {
      const auto shape = taken(unit, step->after);
      if (!shape) return std::unexpected(shape.error());
      effect = Take{sandbox, e->slot.epoch, e->slot.org, *shape};
    }
    if (const auto* e = std::get_if<Released>(&event)) effect = Free{sandbox, e->slot.epoch};
    if (!effect) continue;
    auto machine = eventlog::apply<MachineAggregate, MachineCodec>(unit, machine_stream(step->after.machine),
                                                                   *effect, {context.now});
    if (!machine) return std::unexpected(machine.error());
    unit.project(rows_.machine_changed(machine->after));
  }
  if (!step->events.empty()) unit.project(rows_.slot_changed(step->before, step->after));
  return std::string(step->events.empty() ? "" : "changed");
}

eventlog::Work Slots::make(const SandboxUid& sandbox, SlotCommand command, std::vector<MachineId> machines) {
  eventlog::Work work;
  work.streams.push_back(slot_stream(sandbox));
  for (const auto& id : machines) work.streams.push_back(machine_stream(id));
  work.decide = [this, sandbox, command = std::move(command), machines = std::move(machines)](auto& unit) {
    return decide(unit, sandbox, command, machines);
  };
  return work;
}

Result<eventlog::Work> Slots::work(const SandboxUid& sandbox, SlotCommand command) {
  CHECK(!std::holds_alternative<Report>(command));
  std::vector<MachineId> candidates;
  if (start_to_place(command) > 0) {
    auto slot = state(sandbox);
    if (!slot) return std::unexpected(slot.error());
    if (slot->pending())
      candidates = plan(slot->order.org, slot->order.shape, !slot->machine_type.empty()).machines;
  }
  return make(sandbox, std::move(command), std::move(candidates));
}

eventlog::Work Slots::report(const SandboxUid& sandbox, Report report) {
  std::vector<MachineId> machine{report.machine};
  return make(sandbox, std::move(report), std::move(machine));
}

eventlog::Work Slots::place(const SandboxUid& sandbox, int64_t start, std::vector<MachineId> candidates) {
  return make(sandbox, Place{start}, std::move(candidates));
}

eventlog::Work Slots::lose(const SandboxUid& sandbox, const Lose& command) {
  return make(sandbox, command, {command.machine});
}

eventlog::Work Slots::of_machine(const MachineId& machine, MachineCommand command) {
  eventlog::Work work;
  work.streams = {machine_stream(machine)};
  work.decide = [this, machine, command = std::move(command)](eventlog::Unit& unit) -> Result<std::string> {
    auto step = eventlog::apply<MachineAggregate, MachineCodec>(unit, machine_stream(machine), command,
                                                                {clock_.now()});
    if (!step) return std::unexpected(step.error());
    if (!step->events.empty()) unit.project(rows_.machine_changed(step->after));
    return std::string(step->events.empty() ? "" : "changed");
  };
  return work;
}

eventlog::Work Slots::registration(Register command) {
  const auto machine = command.machine;
  return of_machine(machine, std::move(command));
}

eventlog::Work Slots::loss(const MachineId& machine) {
  return of_machine(machine, DeclareLost{machine});
}

Result<SlotState> Slots::state(const SandboxUid& sandbox) {
  auto head = log_.head(slot_stream(sandbox));
  if (!head) return std::unexpected(head.error());
  if (head->version == 0) return SlotState{};
  return SlotCodec::decode_state(head->state);
}

Plan Slots::plan(const OrgId& org, const Shape& shape, bool whole) const {
  return plan_placement(fleet_.live(org), org, shape, kCandidates, whole);
}

}  // namespace nodus::scheduler
