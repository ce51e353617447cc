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
  Result<std::vector<Sandbox>> sandboxes(const ProjectId& project, const Page& page) override;
  Result<Process> process(const ProjectId& project, const std::string& name) override;
  Result<Process> process(const ProcessUid& uid) override;
  Result<std::vector<Process>> processes(const ProjectId& project, const std::string& sandbox,
                                         int limit) override;
  Result<bool> busy(const SandboxUid& uid) override;
  Result<std::optional<Instant>> funds_changed_at(const OrgId& org) override;

 private:
  eventlog::EventLog& log_;
  pg::Pool& pool_;
};

}  // namespace nodus::lifecycle
