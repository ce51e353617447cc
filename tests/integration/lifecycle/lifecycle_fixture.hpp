// The use cases of lifecycle on a real PostgreSQL, with a clock that moves only when told.
#pragma once

#include <gtest/gtest.h>

#include "libs/eventlog/postgres_log.hpp"
#include "services/lifecycle/adapters/changes.hpp"
#include "services/lifecycle/adapters/codec.hpp"
#include "services/lifecycle/adapters/environment.hpp"
#include "services/lifecycle/adapters/postgres_catalog.hpp"
#include "services/lifecycle/app/sandboxes.hpp"
#include "services/lifecycle/app/works.hpp"
#include "tests/support/postgres_fixture.hpp"

namespace nodus::lifecycle {

class OneImage final : public Images {
 public:
  Result<std::string> resolve(const std::string& reference) override {
    if (reference != "nodus/busybox") return fail(Code::kInvalid, "Invalid", "no such image");
    return "sha256:abc";
  }
};

class Lifecycle : public ::testing::Test {
 protected:
  Lifecycle()
      : pool_({.url = test::fresh_database(test::migrations_of("lifecycle"), "lifecycle"),
               .schema = "lifecycle",
               .application_name = "test"},
              16),
        log_(*eventlog::make_postgres_log(clock_, pool_, 4)),
        batcher_(*log_, {}),
        catalog_(*log_, pool_),
        environment_(*SealedEnvironment::make(std::string(64, 'a'))),
        sandboxes_(batcher_, catalog_, images_, environment_, clock_) {
    EXPECT_TRUE(eventlog::ensure_ranges(pool_).has_value());
    log_->on_append(
        [this](pg::Tx& tx, std::vector<std::any>& notes) { write_changes(tx, notes, clock_.now()); });
  }

  NewSandbox wanted(const std::string& name, const std::string& key = "") {
    NewSandbox out{.org = OrgId("acme"),
                   .project = ProjectId("web"),
                   .name = name,
                   .labels = {},
                   .annotations = {},
                   .spec = {},
                   .env = {},
                   .run = true,
                   .idempotency_key = key,
                   .input_hash = key.empty() ? "" : "h"};
    out.spec.image = "nodus/busybox";
    return out;
  }
  Sandbox change(const Sandbox& sandbox, SandboxCommand command) {
    auto answer = batcher_.run(change_sandbox(sandbox.uid, std::move(command), {clock_.now(), std::nullopt}));
    EXPECT_TRUE(answer.has_value());
    return *SandboxCodec::decode_state(*answer);
  }
  Sandbox make_running(const std::string& name) {
    auto created = sandboxes_.create(wanted(name));
    EXPECT_TRUE(created.has_value());
    change(created->sandbox, RecordSlot{{1, 1, "machine-1", "127.0.0.1:1", clock_.now()}});
    return change(created->sandbox, RecordRunning{{1, "runsc", clock_.now()}});
  }

  ManualClock clock_;
  OneImage images_;
  pg::Pool pool_;
  std::unique_ptr<eventlog::EventLog> log_;
  eventlog::Batcher batcher_;
  PostgresCatalog catalog_;
  SealedEnvironment environment_;
  Sandboxes sandboxes_;
};

}  // namespace nodus::lifecycle
