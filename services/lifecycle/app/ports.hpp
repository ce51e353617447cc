// What lifecycle's use cases need from outside.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libs/base/error.hpp"
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

struct Page {
  int limit = 500;    // 1 to 500
  std::string after;  // the last name of the page before; empty: the first page
};

// Read side; every question is scoped to a project. NotFound when there is none (or it is another project's).
class Catalog {
 public:
  virtual ~Catalog() = default;
  virtual Result<Sandbox> sandbox(const ProjectId& project, const std::string& name) = 0;
  virtual Result<std::optional<Sandbox>> last_holder(const ProjectId& project, const std::string& name) = 0;
  virtual Result<Sandbox> sandbox(const SandboxUid& uid) = 0;
  virtual Result<std::vector<Sandbox>> sandboxes(const ProjectId& project, const Page& page) = 0;
  virtual Result<Process> process(const ProjectId& project, const std::string& name) = 0;
  virtual Result<Process> process(const ProcessUid& uid) = 0;
  // Newest first; of one Sandbox when named.
  virtual Result<std::vector<Process>> processes(const ProjectId& project, const std::string& sandbox,
                                                 int limit) = 0;
  virtual Result<bool> busy(const SandboxUid& uid) = 0;  // a Process of it has not ended
  virtual Result<std::optional<Instant>> funds_changed_at(const OrgId& org) = 0;
};

}  // namespace nodus::lifecycle
