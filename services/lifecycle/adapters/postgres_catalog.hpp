// The read side of lifecycle, on PostgreSQL: rows find the streams, head rows hold the states.
#pragma once

#include "libs/eventlog/event_log.hpp"
#include "libs/pg/connection.hpp"
#include "services/lifecycle/app/ports.hpp"

namespace nodus::lifecycle {

class PostgresCatalog final : public Catalog {
 public:
  PostgresCatalog(eventlog::EventLog& log, pg::Pool& pool) : log_(log), pool_(pool) {}

  Result<Sandbox> sandbox(const ProjectId& project, const std::string& name) override;
  Result<std::optional<Sandbox>> last_holder(const ProjectId& project, const std::string& name) override;
  Result<Sandbox> sandbox(const SandboxUid& uid) override;
  Result<SandboxView> view(const ProjectId& project, const std::string& name) override;
  Result<SandboxView> view(const SandboxUid& uid) override;
  Result<Listed<SandboxView>> sandboxes(const ProjectId& project, const ListQuery& query) override;
  Result<Process> process(const ProjectId& project, const std::string& name) override;
  Result<Process> process(const ProcessUid& uid) override;
  Result<ProcessView> process_view(const ProjectId& project, const std::string& name) override;
  Result<Listed<ProcessView>> processes(const ProjectId& project, const ListQuery& query) override;
  Result<Listed<ObjectEvent>> events(const ProjectId& project, const ListQuery& query) override;
  Result<ObjectEvent> event(const ProjectId& project, const std::string& name) override;
  Result<ChangePage> changes(const ProjectId& project, const std::string& resource, int64_t after,
                             int limit) override;
  Result<std::string> sealed_env(const SandboxUid& uid) override;
  Result<bool> busy(const SandboxUid& uid) override;
  Result<std::optional<Instant>> funds_changed_at(const OrgId& org) override;

 private:
  eventlog::EventLog& log_;
  pg::Pool& pool_;
};

}  // namespace nodus::lifecycle
