// What lifecycle's use cases need from outside.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libs/base/error.hpp"
#include "services/lifecycle/adapters/selectors.hpp"
#include "services/lifecycle/domain/process.hpp"
#include "services/lifecycle/domain/sandbox.hpp"

namespace nodus::lifecycle {

// Images that Sandboxes may be made of.
class Images {
 public:
  virtual ~Images() = default;
  // The digest ("sha256:…") that `reference` means now. Invalid/ImageNotFound.
  virtual Result<std::string> resolve(const std::string& reference) = 0;
};

// The values of spec.env, which are in no event and no state. `digest` tells values apart without showing
// them.
class Environment {
 public:
  virtual ~Environment() = default;
  virtual std::string digest(const ProjectId& project, const std::string& name, const std::string& value) = 0;
  virtual bool same(const std::string& digest, const ProjectId& project, const std::string& name,
                    const std::string& value) = 0;
  // Of a request's body that may hold secrets: for telling whether a key is used again for the same input.
  virtual std::string input_hash(const std::string& body) = 0;
  virtual std::string seal(const SandboxUid& uid, const std::map<std::string, std::string>& values) = 0;
  // Internal/Unsealable. Nothing sealed: no values.
  virtual Result<std::map<std::string, std::string>> open(const SandboxUid& uid,
                                                          const std::string& sealed) = 0;
};

// An object with what only the API knows of it.
struct SandboxView {
  Sandbox sandbox;
  bool busy = false;             // a Process of it has not ended
  int64_t generation = 1;        // changes of spec, from 1
  int64_t resource_version = 0;  // position of its latest visible change
};
struct ProcessView {
  Process process;
  int64_t resource_version = 0;
};
struct ObjectEvent {
  std::string uid;
  ProjectId project;
  std::string name;
  std::string object_kind;
  std::string object_uid;
  std::string object_name;
  std::string type;  // Normal | Warning
  std::string reason;
  std::string message;
  int64_t count = 1;
  Instant first;
  Instant last;
  int64_t resource_version = 0;
};

// What a list asks for. `after` is the key of the last item of the page before (the name; of Processes
// "<admitted µs>/<uid>"), empty for the first page.
struct ListQuery {
  int limit = 500;  // 1 to 500
  std::string after;
  Selector selector;
};
template <class T>
struct Listed {
  std::vector<T> items;
  std::string next;              // `after` of the next page; empty: this is the last
  int64_t resource_version = 0;  // a watch from here misses nothing that is not in the items
};

struct Change {
  int64_t position = 0;
  std::string project;
  std::string resource;  // sandboxes | processes | events
  std::string type;      // ADDED | MODIFIED | DELETED
  std::string object;    // JSON, as it was then
  std::string was;       // what selectors ask for, before; empty for ADDED
};
struct ChangePage {
  std::vector<Change> changes;  // ascending
  int64_t last = 0;             // the page answers for every position up to here
  bool more = false;
  int64_t floor = 0;  // changes up to here may be gone
};

// Read side; every question is scoped to a project. NotFound when there is none (or it is another project's).
// Each answer is one statement, whatever the number of objects and the length of their histories.
class Catalog {
 public:
  virtual ~Catalog() = default;
  virtual Result<Sandbox> sandbox(const ProjectId& project, const std::string& name) = 0;
  virtual Result<std::optional<Sandbox>> last_holder(const ProjectId& project, const std::string& name) = 0;
  virtual Result<Sandbox> sandbox(const SandboxUid& uid) = 0;
  virtual Result<SandboxView> view(const ProjectId& project, const std::string& name) = 0;
  virtual Result<SandboxView> view(const SandboxUid& uid) = 0;  // also of one that is gone
  virtual Result<Listed<SandboxView>> sandboxes(const ProjectId& project,
                                                const ListQuery& query) = 0;  // by name
  virtual Result<Process> process(const ProjectId& project, const std::string& name) = 0;
  virtual Result<Process> process(const ProcessUid& uid) = 0;
  virtual Result<ProcessView> process_view(const ProjectId& project, const std::string& name) = 0;
  virtual Result<Listed<ProcessView>> processes(const ProjectId& project,
                                                const ListQuery& query) = 0;  // newest first
  virtual Result<Listed<ObjectEvent>> events(const ProjectId& project,
                                             const ListQuery& query) = 0;  // by name
  virtual Result<ObjectEvent> event(const ProjectId& project, const std::string& name) = 0;
  // Changes after `after`, of one kind of a project; both empty: of all. At most `limit`.
  virtual Result<ChangePage> changes(const ProjectId& project, const std::string& resource, int64_t after,
                                     int limit) = 0;
  // The sealed values of spec.env; empty: none.
  virtual Result<std::string> sealed_env(const SandboxUid& uid) = 0;
  virtual Result<bool> busy(const SandboxUid& uid) = 0;  // a Process of it has not ended
  virtual Result<std::optional<Instant>> funds_changed_at(const OrgId& org) = 0;
};

}  // namespace nodus::lifecycle
