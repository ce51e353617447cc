#include "services/lifecycle/app/sandboxes.hpp"

#include "libs/base/random.hpp"
#include "services/lifecycle/adapters/codec.hpp"
#include "services/lifecycle/adapters/manifest.hpp"
#include "services/lifecycle/app/works.hpp"

namespace nodus::lifecycle {

namespace {

constexpr int kNameAttempts = 8;

bool raises_cap(const SandboxSpec& existing, const SandboxSpec& requested) {
  return requested.max_cost && (!existing.max_cost || *requested.max_cost > *existing.max_cost);
}

Error already_exists(const std::string& name, const std::vector<Difference>& differing) {
  Error error{Code::kConflict, "AlreadyExists", "", {}, {}, {}};
  error.message = "Sandbox \"" + name +
                  "\" exists with another spec. Delete it and create it again, or use another name.";
  boost::json::array diff;
  for (const auto& d : differing) {
    error.causes.push_back(
        {d.field, "FieldValueDiffers",
         "It is " + (d.existing.empty() ? std::string("not set") : "\"" + d.existing + "\"") + ", not " +
             (d.requested.empty() ? std::string("unset") : "\"" + d.requested + "\"") + "."});
    diff.push_back({{"field", d.field}, {"existing", d.existing}, {"requested", d.requested}});
  }
  error.details_json = boost::json::serialize(boost::json::object{{"diff", std::move(diff)}});
  return error;
}

}  // namespace

Result<SandboxContext> Sandboxes::context(const OrgId& org) {
  auto changed = catalog_.funds_changed_at(org);
  if (!changed) return std::unexpected(std::move(changed.error()));
  return SandboxContext{clock_.now(), *changed};
}

Result<Created> Sandboxes::create(const NewSandbox& wanted) {
  for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
    auto holder = catalog_.last_holder(wanted.project, wanted.name);
    if (!holder) return std::unexpected(std::move(holder.error()));
    const bool live = *holder && (*holder)->phase != Phase::kDeleted;
    // A repeat of an accepted create is answered by its key; without a key, by the Sandbox that is there.
    if (live && wanted.idempotency_key.empty()) return reconnect(**holder, wanted);

    auto digest = images_.resolve(wanted.spec.image);
    if (!digest) return std::unexpected(std::move(digest.error()));
    auto now = context(wanted.org);
    if (!now) return std::unexpected(std::move(now.error()));
    const SandboxUid uid(random_uuid());
    CreateSandbox command{{.uid = uid,
                           .org = wanted.org,
                           .project = wanted.project,
                           .name = wanted.name,
                           .spec = wanted.spec,
                           .image_digest = *digest,
                           .labels = wanted.labels,
                           .annotations = wanted.annotations,
                           .at = now->now},
                          wanted.run};
    const std::string key =
        wanted.idempotency_key.empty() ? "" : "create/" + wanted.project.str() + "/" + wanted.idempotency_key;
    auto answer = batcher_.run(create_sandbox(std::move(command), *holder ? (*holder)->uid : SandboxUid(),
                                              *now, key, key.empty() ? "" : wanted.input_hash));
    if (answer) {
      auto created = SandboxCodec::decode_state(*answer);
      if (!created) return std::unexpected(std::move(created.error()));
      auto current = catalog_.sandbox(created->uid);  // a repeated key answers with what it is now
      if (!current) return std::unexpected(std::move(current.error()));
      return Created{*current, true};
    }
    if (answer.error().reason != "NameMoved") return std::unexpected(std::move(answer.error()));
    if (live) return reconnect(**holder, wanted);
  }
  Error busy{
      Code::kUnavailable, "Overloaded", "Many requests create this name at once. Try again.", {}, 1, {}};
  return std::unexpected(std::move(busy));
}

Result<Created> Sandboxes::reconnect(const Sandbox& existing, const NewSandbox& wanted) {
  if (existing.phase == Phase::kTerminating)
    return fail(
        Code::kConflict, "SandboxNotRunning",
        "Sandbox \"" + existing.name + "\" is being deleted. Wait until it is gone, then create it again.");
  SandboxSpec same_cap = wanted.spec;
  same_cap.max_cost = existing.spec.max_cost;
  const bool raises = raises_cap(existing.spec, wanted.spec);
  const auto differing = differences(existing.spec, raises ? same_cap : wanted.spec);
  if (!differing.empty()) return std::unexpected(already_exists(existing.name, differing));
  auto after = raises ? raise_max_cost(existing, *wanted.spec.max_cost)
                      : (wanted.run ? trigger(existing, Trigger::kCreate) : Result<Sandbox>(existing));
  if (!after) return std::unexpected(std::move(after.error()));
  return Created{*after, false};
}

Result<Sandbox> Sandboxes::change(const Sandbox& sandbox, SandboxCommand command) {
  auto now = context(sandbox.org);
  if (!now) return std::unexpected(std::move(now.error()));
  auto answer = batcher_.run(change_sandbox(sandbox.uid, std::move(command), *now));
  if (!answer) return std::unexpected(std::move(answer.error()));
  return SandboxCodec::decode_state(*answer);
}

Result<Sandbox> Sandboxes::trigger(const Sandbox& sandbox, Trigger kind) {
  return change(sandbox, TriggerStart{kind});
}
Result<Sandbox> Sandboxes::stop(const Sandbox& sandbox) {
  return change(sandbox, RequestStop{StopReason::kUser, {}});
}
Result<Sandbox> Sandboxes::remove(const Sandbox& sandbox) {
  return change(sandbox, DeleteSandbox{"User"});
}
Result<Sandbox> Sandboxes::raise_max_cost(const Sandbox& sandbox, Money max_cost) {
  return change(sandbox, RaiseMaxCost{max_cost});
}

Result<Admission> Sandboxes::admit(const Sandbox& sandbox, const NewProcess& process) {
  auto now = context(sandbox.org);
  if (!now) return std::unexpected(std::move(now.error()));
  ProcessAdmitted admitted;
  admitted.uid = ProcessUid(random_uuid());
  admitted.command = process.command;
  admitted.timeout = process.timeout;
  admitted.at = now->now;
  const std::string key =
      process.idempotency_key.empty() ? "" : "exec/" + sandbox.uid.str() + "/" + process.idempotency_key;
  auto answer = batcher_.run(
      admit_process(sandbox.uid, std::move(admitted), *now, key, key.empty() ? "" : process.input_hash));
  if (answer) {
    auto state = ProcessCodec::decode_state(*answer);
    if (!state) return std::unexpected(std::move(state.error()));
    auto current = catalog_.process(state->admitted.uid);
    if (!current) return std::unexpected(std::move(current.error()));
    auto owner = catalog_.sandbox(sandbox.uid);  // its slot may have changed since the caller looked
    if (!owner) return std::unexpected(std::move(owner.error()));
    return Admission{std::move(*owner), std::move(*current)};
  }
  if (answer.error().reason != "SandboxNotRunning") return std::unexpected(std::move(answer.error()));
  auto after = trigger(sandbox, Trigger::kCommand);
  if (!after) return std::unexpected(std::move(after.error()));
  return Admission{std::move(*after), std::nullopt};
}

Result<std::optional<Error>> Sandboxes::refusal(const Sandbox& sandbox) {
  auto now = context(sandbox.org);
  if (!now) return std::unexpected(std::move(now.error()));
  return standing_refusal(sandbox, *now);
}

}  // namespace nodus::lifecycle
