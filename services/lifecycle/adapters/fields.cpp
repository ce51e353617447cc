#include "services/lifecycle/adapters/fields.hpp"

#include <algorithm>

namespace nodus::lifecycle {

namespace {

using T = Field::Type;

constexpr Field kSandboxFields[] = {
    {"apiVersion", T::kString, "nodus.dev/v1.", {}, {}, true},
    {"kind", T::kString, "Sandbox.", {}, {}, true},
    {"metadata", T::kObject, "What the object is called.", {}, {}, true},
    {"metadata.name", T::kString, "A DNS label, unique in the project.", {}, {}, true},
    {"metadata.namespace", T::kString, "The project; that of the request's path."},
    {"metadata.labels", T::kStrings, "Up to 64, with annotations 32 KiB; for selectors. Never a difference."},
    {"metadata.annotations", T::kStrings, "For people and tools. Never a difference."},
    {"metadata.uid", T::kString, "Of this object and no other, ever.", {}, {}, false, true},
    {"metadata.resourceVersion",
     T::kString,
     "Where a watch goes on from here; changes with each visible change.",
     {},
     {},
     false,
     true},
    {"metadata.generation", T::kInteger, "Counts changes of spec.", {}, {}, false, true},
    {"metadata.creationTimestamp", T::kInstant, "maxLifetime counts from here.", {}, {}, false, true},
    {"metadata.deletionTimestamp", T::kInstant, "Since when it is being deleted.", {}, {}, false, true},
    {"metadata.managedFields", T::kList, "Taken and ignored.", {}, {}, false, true},
    {"metadata.selfLink", T::kString, "Taken and ignored.", {}, {}, false, true},
    {"spec", T::kObject, "What is wanted.", {}, {}, true},
    {"spec.image",
     T::kString,
     "An image reference, or a catalog image such as nodus/agent-tools.",
     {},
     {},
     true},
    {"spec.resources", T::kObject, "Its shape."},
    {"spec.resources.cpu", T::kQuantity, "0.25 to 64 vCPU.", "1"},
    {"spec.resources.memory", T::kQuantity, "128Mi to 256Gi.", "1Gi"},
    {"spec.resources.disk", T::kQuantity, "1Gi to 200Gi.", "10Gi"},
    {"spec.resources.gpu", T::kQuantity, "Refused: GPU Sandboxes are not available yet."},
    {"spec.network", T::kObject, "Its network."},
    {"spec.network.egress", T::kObject, "Outbound traffic."},
    {"spec.network.egress.policy", T::kString, "Deny: none. Open: the public internet.", "Deny", "Deny|Open"},
    {"spec.lifecycle", T::kObject, "When it ends."},
    {"spec.lifecycle.idleTimeout", T::kString, "0s (never idle) or 1m to 24h.", "5m"},
    {"spec.lifecycle.onIdle", T::kString, "What the idle timeout does.", "Stop", "Stop|Delete"},
    {"spec.lifecycle.maxLifetime", T::kString, "1m to 720h; then it is deleted, whatever it is doing.",
     "24h"},
    {"spec.continuity", T::kObject, "What a stop keeps."},
    {"spec.continuity.mode", T::kString, "Snapshotted: /workspace. Ephemeral: nothing.", "Snapshotted",
     "Snapshotted|Ephemeral"},
    {"spec.workingDir", T::kString, "An absolute path, not under /proc, /sys or /dev.", "/workspace"},
    {"spec.env", T::kStrings, "Up to 256 variables of every command. Values are never shown: \"***\"."},
    {"spec.maxCostUSD", T::kString,
     "It stops when it has cost this much, such as \"5.00\". Can only be raised."},
    {"spec.state", T::kString, "Stopped stops it, Running starts it.", "Running", "Running|Stopped"},
    {"status", T::kObject, "What is.", {}, {}, false, true},
    {"status.phase",
     T::kString,
     "Where it is in its life.",
     {},
     "Pending|Starting|Running|Stopping|Stopped|Recovering|Terminating|Failed",
     false,
     true},
    {"status.activity", T::kString, "Busy: a command runs.", {}, "Busy|Idle", false, true},
    {"status.cost",
     T::kString,
     "USD so far; computed when read, so it makes no watch event.",
     {},
     {},
     false,
     true},
    {"status.rate", T::kString, "USD per second of the start under way.", {}, {}, false, true},
    {"status.imageDigest", T::kString, "What spec.image meant when it was created.", {}, {}, false, true},
    {"status.starts", T::kInteger, "How often it was started.", {}, {}, false, true},
    {"status.runtime", T::kString, "The container runtime.", {}, {}, false, true},
    {"status.isolation", T::kString, "A warning about the runtime, if there is one.", {}, {}, false, true},
    {"status.startedAt", T::kInstant, "Of the start under way.", {}, {}, false, true},
    {"status.lastActivity", T::kInstant, "When it was used last.", {}, {}, false, true},
    {"status.awakeBecause",
     T::kString,
     "The command, process or request that counts as activity.",
     {},
     {},
     false,
     true},
    {"status.stopReason",
     T::kString,
     "Why it stopped.",
     {},
     "User|Idle|InsufficientCredits|BudgetExceeded|MaxCostReached",
     false,
     true},
    {"status.reason", T::kString, "Why it failed.", {}, {}, false, true},
    {"status.message", T::kString, "The same, as a sentence.", {}, {}, false, true},
    {"status.stopsAt", T::kInstant, "When it stops as idle if nothing uses it.", {}, {}, false, true},
    {"status.deletesAt", T::kInstant, "When maxLifetime deletes it.", {}, {}, false, true},
    {"status.next", T::kObject, "What ends it next.", {}, {}, false, true},
    {"status.next.action", T::kString, "Stop or Delete.", {}, {}, false, true},
    {"status.next.reason", T::kString, "Why.", {}, {}, false, true},
    {"status.next.at", T::kInstant, "When.", {}, {}, false, true},
    {"status.next.message", T::kString, "As a sentence.", {}, {}, false, true},
    {"status.restorePoint", T::kObject, "What a start gives back.", {}, {}, false, true},
    {"status.restorePoint.at", T::kInstant, "When it was taken.", {}, {}, false, true},
    {"status.restorePoint.ageSeconds", T::kInteger, "When read.", {}, {}, false, true},
    {"status.restorePoint.sizeBytes", T::kInteger, "As stored.", {}, {}, false, true},
    {"status.restorePoint.sha256", T::kString, "Of what is stored.", {}, {}, false, true},
    {"status.conditions", T::kConditions, "Ready, Scheduled, Funded, Restorable …", {}, {}, false, true},
};

constexpr Field kProcessFields[] = {
    {"apiVersion", T::kString, "nodus.dev/v1."},
    {"kind", T::kString, "Process."},
    {"metadata", T::kObject, "What the object is called."},
    {"metadata.name", T::kString, "Such as sb-hello-12."},
    {"metadata.namespace", T::kString, "The project."},
    {"metadata.uid", T::kString, "Of this object and no other, ever."},
    {"metadata.resourceVersion", T::kString, "Where a watch goes on from here."},
    {"metadata.creationTimestamp", T::kInstant, "When it was admitted."},
    {"metadata.labels", T::kStrings, "nodus.dev/sandbox: the Sandbox that runs it."},
    {"metadata.ownerReferences", T::kObjects, "The Sandbox that runs it."},
    {"spec", T::kObject, "What was asked for."},
    {"spec.sandbox", T::kString, "The Sandbox that runs it."},
    {"spec.command", T::kList, "The program and its arguments."},
    {"spec.timeout", T::kString, "After it, the command is killed.", "10m"},
    {"spec.tty", T::kBoolean, "It has a terminal."},
    {"spec.stdin", T::kBoolean, "Its input comes over a stream."},
    {"spec.workingDir", T::kString, "Where it runs; empty: the Sandbox's."},
    {"status", T::kObject, "What became of it."},
    {"status.phase", T::kString, "Running or Ended.", {}, "Running|Ended"},
    {"status.reason",
     T::kString,
     "How it ended; empty for exit code 0.",
     {},
     "|NonZeroExit|Signaled|DeadlineExceeded|StartFailed|NodeLost|OutputLimitExceeded|ParentStopped|"
     "Cancelled"},
    {"status.exitCode", T::kInteger, "Of the command; 128 plus the number of the signal that ended it."},
    {"status.message", T::kString, "More about the end."},
    {"status.startedAt", T::kInstant, "When the program began."},
    {"status.endedAt", T::kInstant, "When it had ended."},
    {"status.output", T::kObject, "What it wrote, as far as it is kept."},
    {"status.output.stdoutBytes", T::kInteger, "To its standard output."},
    {"status.output.stderrBytes", T::kInteger, "To its standard error."},
};

constexpr Field kEventFields[] = {
    {"apiVersion", T::kString, "v1."},
    {"kind", T::kString, "Event."},
    {"metadata", T::kObject, "What the object is called."},
    {"metadata.name", T::kString, "The object's name and a number."},
    {"metadata.namespace", T::kString, "The project."},
    {"metadata.uid", T::kString, "Of this object and no other, ever."},
    {"metadata.resourceVersion", T::kString, "Where a watch goes on from here."},
    {"metadata.creationTimestamp", T::kInstant, "When it happened first."},
    {"involvedObject", T::kObject, "To what it happened."},
    {"involvedObject.apiVersion", T::kString, "nodus.dev/v1."},
    {"involvedObject.kind", T::kString, "Such as Sandbox."},
    {"involvedObject.namespace", T::kString, "The project."},
    {"involvedObject.name", T::kString, "Its name."},
    {"involvedObject.uid", T::kString, "Its uid."},
    {"type", T::kString, "Is it good or bad?", {}, "Normal|Warning"},
    {"reason", T::kString, "What happened, as one word."},
    {"message", T::kString, "What happened, as a sentence."},
    {"count", T::kInteger, "How often."},
    {"firstTimestamp", T::kInstant, "When it happened first."},
    {"lastTimestamp", T::kInstant, "When it happened last."},
    {"source", T::kObject, "Who says so."},
    {"source.component", T::kString, "nodus-lifecycle."},
    {"reportingComponent", T::kString, "nodus-lifecycle."},
    {"reportingInstance", T::kString, "Empty."},
};

}  // namespace

std::span<const Field> sandbox_fields() {
  return kSandboxFields;
}
std::span<const Field> process_fields() {
  return kProcessFields;
}
std::span<const Field> event_fields() {
  return kEventFields;
}

bool known_field(std::string_view parent, std::string_view name) {
  if (name.contains('.')) return false;  // a member's name, not a path
  return std::ranges::any_of(kSandboxFields, [&](const Field& field) {
    if (parent.empty()) return field.path == name;
    return field.path.size() == parent.size() + 1 + name.size() && field.path.starts_with(parent) &&
           field.path[parent.size()] == '.' && field.path.ends_with(name);
  });
}

}  // namespace nodus::lifecycle
