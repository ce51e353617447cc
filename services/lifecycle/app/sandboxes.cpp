#include "services/lifecycle/app/sandboxes.hpp"

#include "libs/base/random.hpp"
#include "services/lifecycle/adapters/codec.hpp"
#include "services/lifecycle/adapters/manifest.hpp"
#include "services/lifecycle/app/works.hpp"

namespace nodus::lifecycle {

namespace {

constexpr int kNameAttempts = 8;
constexpr int kAdmitAttempts = 64;  // of one key, while none reached a machine

bool raises_cap(const SandboxSpec& existing, const SandboxSpec& requested) {
  return requested.max_cost && (!existing.max_cost || *requested.max_cost > *existing.max_cost);
}

std::string shown(const std::string& value, std::string_view none) {
  return value.empty() ? std::string(none) : "\"" + value + "\"";
}

Error already_exists(const std::string& name, const std::vector<Difference>& differing) {
  Error error{Code::kConflict, "AlreadyExists", "", {}, {}, {}};
  std::string fields;
  boost::json::array diff;
  for (const auto& d : differing) {
    fields += (fields.empty() ? "" : ", ") + d.field;
    error.causes.push_back(
        {d.field, "FieldValueDiffers",
         "It is " + shown(d.existing, "not set") + ", not " + shown(d.requested, "unset") + "."});
    diff.push_back({{"field", d.field}, {"existing", d.existing}, {"requested", d.requested}});
  }
  const bool cap_alone = differing.size() == 1 && differing.front().field == "spec.maxCostUSD";
  error.message =
      "Sandbox \"" + name + "\" exists with another spec (" + fields + "). " +
      (cap_alone ? "A budget can only be raised: send the one it has, or a higher one; or delete the "
                   "Sandbox and create it again."
                 : "Send the spec it has, use another name, or delete it and create it again.");
  error.details_json = boost::json::serialize(boost::json::object{{"diff", std::move(diff)}});
  return error;
}

std::unexpected<Error> being_deleted(const std::string& name) {
  return fail(Code::kConflict, "SandboxNotRunning",
              "Sandbox \"" + name + "\" is being deleted. Wait until it is gone, then create it again.");
}

KeyChanges changed_keys(const std::map<std::string, std::string>& from,
                        const std::map<std::string, std::string>& to) {
  KeyChanges out;
  for (const auto& [key, value] : from)
    if (!to.contains(key)) out[key] = std::nullopt;
  for (const auto& [key, value] : to)
    if (const auto had = from.find(key); had == from.end() || had->second != value) out[key] = value;
  return out;
}

// The Sandbox that was found is no longer as it was read: gone, or its cap was raised by somebody else.
bool look_again(const Error& error) {
  return error.code == Code::kNotFound || (error.code == Code::kInvalid && error.reason == "Invalid");
}

}  // namespace

Result<SandboxContext> Sandboxes::context(const OrgId& org) {
  auto changed = catalog_.funds_changed_at(org);
  if (!changed) return std::unexpected(std::move(changed.error()));
  return SandboxContext{clock_.now(), *changed};
}

Result<Created> Sandboxes::create(const NewSandbox& asked) {
  NewSandbox wanted = asked;
  for (const auto& [name, value] : wanted.env)
    wanted.spec.env[name] = environment_.digest(wanted.project, name, value);
  for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
    auto holder = catalog_.last_holder(wanted.project, wanted.name);
    if (!holder) return std::unexpected(std::move(holder.error()));
    const bool live = *holder && (*holder)->phase != Phase::kDeleted;
    // A repeat of an accepted create is answered by its key; without a key, by the Sandbox that is there.
    Result<Created> done = fail(Code::kConflict, "NameMoved", "");
    if (!live || !wanted.idempotency_key.empty())
      done = create_new(wanted, *holder ? (*holder)->uid : SandboxUid());
    if (done || done.error().reason != "NameMoved") return done;
    if (!live) continue;
    done = reconnect(**holder, wanted);
    if (done || !look_again(done.error())) return done;
  }
  Error busy{
      Code::kUnavailable, "Overloaded", "Many requests create this name at once. Try again.", {}, 1, {}};
  return std::unexpected(std::move(busy));
}

Result<Created> Sandboxes::create_new(const NewSandbox& wanted, const SandboxUid& last_holder) {
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
  const std::string sealed = wanted.env.empty() ? "" : environment_.seal(uid, wanted.env);
  auto answer = run(create_sandbox(std::move(command), last_holder, *now, key,
                                   key.empty() ? "" : wanted.input_hash, sealed, quotas_),
                    uid);
  if (!answer) return std::unexpected(std::move(answer.error()));
  auto created = SandboxCodec::decode_state(*answer);
  if (!created) return std::unexpected(std::move(created.error()));
  if (terms_.dry_run) return Created{std::move(*created), true};
  auto current = catalog_.sandbox(created->uid);  // a repeated key answers with what it is now
  if (!current) return std::unexpected(std::move(current.error()));
  if (current->phase == Phase::kTerminating) return being_deleted(wanted.name);
  if (current->phase == Phase::kDeleted)
    return fail(Code::kConflict, "IdempotencyKeyReused",
                "This Idempotency-Key created Sandbox \"" + current->name +
                    "\", which has been deleted since. Use a new key to create it again.");
  return Created{std::move(*current), true};
}

Result<Created> Sandboxes::reconnect(const Sandbox& existing, const NewSandbox& wanted) {
  if (existing.phase == Phase::kTerminating) return being_deleted(existing.name);
  SandboxSpec requested = wanted.spec;
  // The same values under an older key are the same.
  for (const auto& [name, value] : wanted.env)
    if (const auto it = existing.spec.env.find(name);
        it != existing.spec.env.end() && environment_.same(it->second, existing.project, name, value))
      requested.env[name] = it->second;
  const bool raises = raises_cap(existing.spec, requested);
  if (raises) requested.max_cost = existing.spec.max_cost;
  const auto differing = differences(existing.spec, requested);
  if (!differing.empty()) return std::unexpected(already_exists(existing.name, differing));
  auto after = raises ? raise_max_cost(existing, *wanted.spec.max_cost)
                      : (wanted.run ? trigger(existing, Trigger::kCreate) : Result<Sandbox>(existing));
  if (!after) return std::unexpected(std::move(after.error()));
  return Created{*after, false};
}

Result<Sandbox> Sandboxes::replace(const Sandbox& existing, const NewSandbox& wanted,
                                   std::optional<bool> run) {
  SandboxSpec requested = wanted.spec;
  for (const auto& [name, value] : wanted.env) {
    const auto has = existing.spec.env.find(name);
    const bool same =
        has != existing.spec.env.end() &&
        (value == kHiddenValue || environment_.same(has->second, existing.project, name, value));
    requested.env[name] = same ? has->second : environment_.digest(existing.project, name, value);
  }
  const bool raises = raises_cap(existing.spec, requested);
  if (raises) requested.max_cost = existing.spec.max_cost;
  Error refused{Code::kInvalid, "Invalid", "The change is invalid:", {}, {}, {}};
  for (const auto& d : differences(existing.spec, requested))
    refused.causes.push_back(
        {d.field, "FieldImmutable",
         d.field == "spec.maxCostUSD"
             ? "A cap can only be raised."
             : "It cannot change: of spec only state and maxCostUSD can. Delete the Sandbox and "
               "create it again."});
  for (const auto& cause : refused.causes) refused.message += " " + cause.field + ": " + cause.message;
  if (!refused.causes.empty()) return std::unexpected(std::move(refused));
  std::vector<SandboxCommand> commands;  // all of them, or none
  if (raises) commands.emplace_back(RaiseMaxCost{*wanted.spec.max_cost});
  ChangeMetadata metadata{changed_keys(existing.labels, wanted.labels),
                          changed_keys(existing.annotations, wanted.annotations)};
  if (!metadata.labels.empty() || !metadata.annotations.empty()) commands.emplace_back(std::move(metadata));
  if (run && !*run) commands.emplace_back(RequestStop{StopReason::kUser, {}});
  if (run && *run) return start(existing, std::move(commands), Trigger::kStart);
  return commands.empty() ? Result<Sandbox>(existing) : change(existing, std::move(commands));
}

Result<std::string> Sandboxes::run(eventlog::Work work, const SandboxUid& uid) {
  if (terms_.resource_version) work = if_version(std::move(work), uid, *terms_.resource_version);
  if (!terms_.dry_run) return batcher_.run(std::move(work));
  return dry_answer(batcher_.run(dry_run(std::move(work))));
}

Result<Sandbox> Sandboxes::change(const Sandbox& sandbox, std::vector<SandboxCommand> commands) {
  auto now = context(sandbox.org);
  if (!now) return std::unexpected(std::move(now.error()));
  auto answer = run(change_sandbox(sandbox.uid, std::move(commands), *now), sandbox.uid);
  if (!answer) return std::unexpected(std::move(answer.error()));
  return SandboxCodec::decode_state(*answer);
}

Result<Sandbox> Sandboxes::start(const Sandbox& sandbox, std::vector<SandboxCommand> commands, Trigger kind) {
  auto now = context(sandbox.org);
  if (!now) return std::unexpected(std::move(now.error()));
  commands.emplace_back(TriggerStart{kind});
  auto answer = run(start_sandbox(sandbox.org, sandbox.uid, std::move(commands), *now, quotas_), sandbox.uid);
  if (!answer) return std::unexpected(std::move(answer.error()));
  return SandboxCodec::decode_state(*answer);
}
Result<Sandbox> Sandboxes::trigger(const Sandbox& sandbox, Trigger kind) {
  return start(sandbox, {}, kind);
}
Result<Sandbox> Sandboxes::stop(const Sandbox& sandbox) {
  return change(sandbox, {RequestStop{StopReason::kUser, {}}});
}
Result<Sandbox> Sandboxes::remove(const Sandbox& sandbox) {
  return change(sandbox, {DeleteSandbox{"User"}});
}
Result<Sandbox> Sandboxes::raise_max_cost(const Sandbox& sandbox, Money max_cost) {
  return change(sandbox, {RaiseMaxCost{max_cost}});
}

Result<Process> Sandboxes::admit_once(const Sandbox& sandbox, const NewProcess& process, int attempt,
                                      std::optional<Sandbox>& owner) {
  const SandboxContext now{clock_.now(), {}};  // a command's number is no question of money
  ProcessAdmitted admitted;
  admitted.uid = ProcessUid(random_uuid());
  admitted.command = process.command;
  admitted.timeout = process.timeout;
  admitted.at = now.now;
  admitted.tty = process.tty;
  admitted.stdin_open = process.stdin_open;
  admitted.working_dir = process.working_dir;
  const std::string scope = attempt == 1 ? "exec/" : "exec." + std::to_string(attempt) + "/";
  const std::string key =
      process.idempotency_key.empty() ? "" : scope + sandbox.uid.str() + "/" + process.idempotency_key;
  const ProcessUid ours = admitted.uid;
  const auto seen = std::make_shared<std::optional<Sandbox>>();
  auto answer = batcher_.run(
      admit_process(sandbox.uid, std::move(admitted), now, key, key.empty() ? "" : process.input_hash, seen));
  if (!answer) return std::unexpected(std::move(answer.error()));
  owner = std::move(*seen);
  auto state = ProcessCodec::decode_state(*answer);
  if (!state || state->admitted.uid == ours) return state;
  auto current = batcher_.run(change_process(state->admitted.uid, RepeatProcess{}));
  if (!current) return std::unexpected(std::move(current.error()));
  return ProcessCodec::decode_state(*current);
}

Result<Admission> Sandboxes::admit(const Sandbox& sandbox, const NewProcess& process) {
  std::optional<Sandbox> seen;  // its slot may have changed since the caller looked
  auto admitted = admit_once(sandbox, process, 1, seen);
  for (int attempt = 2; admitted && admitted->ended && admitted->ended->never_reached; ++attempt) {
    if (attempt > kAdmitAttempts) break;  // its end is the answer
    admitted = admit_once(sandbox, process, attempt, seen);
  }
  if (admitted) {
    auto owner = seen ? Result<Sandbox>(std::move(*seen)) : catalog_.sandbox(sandbox.uid);
    if (!owner) return std::unexpected(std::move(owner.error()));
    auto env = env_of(*owner);
    if (!env) return std::unexpected(std::move(env.error()));
    return Admission{std::move(*owner), std::move(*admitted), std::move(*env)};
  }
  if (admitted.error().reason != "SandboxNotRunning") return std::unexpected(std::move(admitted.error()));
  auto after = trigger(sandbox, Trigger::kCommand);
  if (!after) return std::unexpected(std::move(after.error()));
  return Admission{std::move(*after), std::nullopt, {}};
}

Result<std::map<std::string, std::string>> Sandboxes::env_of(const Sandbox& sandbox) {
  if (sandbox.spec.env.empty()) return std::map<std::string, std::string>{};
  auto sealed = catalog_.sealed_env(sandbox.uid);
  if (!sealed) return std::unexpected(std::move(sealed.error()));
  return environment_.open(sandbox.uid, *sealed);
}

void Sandboxes::abandon(const Process& process, const std::string& message) {
  // When this cannot be recorded the machine is asked later, which ends it as well.
  (void)batcher_.run(change_process(process.admitted.uid, AbandonProcess{message, clock_.now()}));
}

Result<std::optional<Error>> Sandboxes::refusal(const Sandbox& sandbox) {
  auto now = context(sandbox.org);
  if (!now) return std::unexpected(std::move(now.error()));
  return standing_refusal(sandbox, *now);
}

}  // namespace nodus::lifecycle
