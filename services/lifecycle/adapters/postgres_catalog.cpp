#include "services/lifecycle/adapters/postgres_catalog.hpp"

#include "services/lifecycle/adapters/codec.hpp"
#include "services/lifecycle/app/works.hpp"
#include "services/lifecycle/domain/name.hpp"

namespace nodus::lifecycle {

namespace {

std::string bytes_of(const pqxx::row& row, int column) {
  return pqxx::binarystring(row[column]).str();
}

std::unexpected<Error> no_process(const std::string& name) {
  return fail(Code::kNotFound, "NotFound", "There is no Process named \"" + name + "\" in this project.");
}

}  // namespace

Result<Sandbox> PostgresCatalog::sandbox(const SandboxUid& uid) {
  auto head = log_.head(sandbox_stream(uid));
  if (!head) return std::unexpected(std::move(head.error()));
  if (head->version == 0) return fail(Code::kNotFound, "NotFound", "There is no such Sandbox.");
  return SandboxCodec::decode_state(head->state);
}

Result<std::optional<Sandbox>> PostgresCatalog::last_holder(const ProjectId& project,
                                                            const std::string& name) {
  auto head = log_.head(name_stream(project, name));
  if (!head) return std::unexpected(std::move(head.error()));
  if (head->version == 0) return std::nullopt;
  auto holder = NameCodec::decode_state(head->state);
  if (!holder) return std::unexpected(std::move(holder.error()));
  auto found = sandbox(holder->holder);
  if (!found) return std::unexpected(std::move(found.error()));
  return std::move(*found);
}

Result<Sandbox> PostgresCatalog::sandbox(const ProjectId& project, const std::string& name) {
  auto holder = last_holder(project, name);
  if (!holder) return std::unexpected(std::move(holder.error()));
  if (!*holder || (*holder)->phase == Phase::kDeleted)
    return fail(Code::kNotFound, "NotFound", "There is no Sandbox named \"" + name + "\" in this project.");
  return std::move(**holder);
}

Result<std::vector<Sandbox>> PostgresCatalog::sandboxes(const ProjectId& project, const Page& page) {
  return pool_.with_tx([&](pqxx::work& tx) -> Result<std::vector<Sandbox>> {
    const auto rows = tx.exec_params(
        "SELECT h.state FROM sandboxes s JOIN heads h ON h.stream = 'sandbox/' || s.uid "
        "WHERE s.project = $1 AND s.name > $2 ORDER BY s.name LIMIT $3",
        project.str(), page.after, page.limit);
    std::vector<Sandbox> out;
    for (const auto& row : rows) {
      auto state = SandboxCodec::decode_state(bytes_of(row, 0));
      if (!state) return std::unexpected(std::move(state.error()));
      out.push_back(std::move(*state));
    }
    return out;
  });
}

Result<Process> PostgresCatalog::process(const ProcessUid& uid) {
  auto head = log_.head(process_stream(uid));
  if (!head) return std::unexpected(std::move(head.error()));
  if (head->version == 0) return no_process(uid.str());
  return ProcessCodec::decode_state(head->state);
}

Result<Process> PostgresCatalog::process(const ProjectId& project, const std::string& name) {
  auto uid = pool_.with_tx([&](pqxx::work& tx) -> Result<std::string> {
    const auto rows = tx.exec_params(
        "SELECT p.uid FROM processes p JOIN sandboxes s ON s.uid = p.sandbox_uid "
        "WHERE p.project = $1 AND p.name = $2",
        project.str(), name);
    if (rows.empty()) return no_process(name);
    return rows[0][0].as<std::string>();
  });
  if (!uid) return std::unexpected(std::move(uid.error()));
  return process(ProcessUid(*uid));
}

Result<std::vector<Process>> PostgresCatalog::processes(const ProjectId& project, const std::string& sandbox,
                                                        int limit) {
  return pool_.with_tx([&](pqxx::work& tx) -> Result<std::vector<Process>> {
    const auto rows = tx.exec_params(
        "SELECT h.state FROM processes p JOIN sandboxes s ON s.uid = p.sandbox_uid "
        "JOIN heads h ON h.stream = 'process/' || p.uid "
        "WHERE s.project = $1 AND ($2 = '' OR s.name = $2) ORDER BY p.admitted_us DESC, p.uid LIMIT $3",
        project.str(), sandbox, limit);
    std::vector<Process> out;
    for (const auto& row : rows) {
      auto state = ProcessCodec::decode_state(bytes_of(row, 0));
      if (!state) return std::unexpected(std::move(state.error()));
      out.push_back(std::move(*state));
    }
    return out;
  });
}

Result<bool> PostgresCatalog::busy(const SandboxUid& uid) {
  return pool_.with_tx([&](pqxx::work& tx) -> Result<bool> {
    const auto rows = tx.exec_params(
        "SELECT EXISTS (SELECT 1 FROM processes WHERE sandbox_uid = $1 AND NOT ended)", uid.str());
    return rows[0][0].as<bool>();
  });
}

Result<std::optional<Instant>> PostgresCatalog::funds_changed_at(const OrgId& org) {
  return pool_.with_tx([&](pqxx::work& tx) -> Result<std::optional<Instant>> {
    const auto rows = tx.exec_params("SELECT changed_us FROM funds WHERE org = $1", org.str());
    if (rows.empty()) return std::nullopt;
    return from_micros(rows[0][0].as<int64_t>());
  });
}

}  // namespace nodus::lifecycle
