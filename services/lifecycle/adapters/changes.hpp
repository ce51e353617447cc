// Every visible change of an object, numbered in one order over all projects and kinds: what watchers are
// told, and resourceVersion. The rows are written in the transaction that makes the change, as its last
// statements, under one lock: position order is commit order.
//
// The hook writes only rows that no other transaction can hold while it waits for that lock: its own tables,
// and rows of Sandboxes and Processes whose heads its Works hold.
//
// A change is visible when the object reads differently at one and the same instant; COST, which only grows
// with time, is none.
#pragma once

#include <any>
#include <memory>
#include <string>
#include <vector>

#include "libs/base/clock.hpp"
#include "services/lifecycle/adapters/object_events.hpp"
#include "services/lifecycle/domain/process.hpp"

namespace nodus::lifecycle {

// ---- notes that a Work leaves (eventlog::Unit::stage)

struct GoneProcess {  // its row went with the Sandbox
  std::string uid;
  std::string name;
  int64_t admitted_us = 0;
};
struct SandboxNote {
  Sandbox before;
  Sandbox after;
  std::vector<GoneProcess> gone;  // with it
};
struct ProcessNote {
  Process before;
  Process after;
  bool gone = false;  // its Sandbox was deleted before
};
struct EventNote {
  ObjectRef object;
  std::string type;  // Normal | Warning
  std::string reason;
  std::string message;
  int64_t count = 1;
};
// The pointees are filled in by projections, before the hook reads them.
using SandboxNotePtr = std::shared_ptr<SandboxNote>;
using ProcessNotePtr = std::shared_ptr<ProcessNote>;
// Tell of a Sandbox as it is now, e.g. one from before resource versions existed; the Work names its stream.
struct RetellNote {
  SandboxUid uid;
};

struct ExpireNote {  // Events of objects that are gone for long, at most `limit`
  int limit = 500;
};

// The hook of eventlog::EventLog::on_append.
void write_changes(pg::Tx& tx, std::vector<std::any>& notes, Instant now);

}  // namespace nodus::lifecycle
