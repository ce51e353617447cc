#include "services/lifecycle/adapters/postgres_catalog.hpp"

#include "libs/pg/reader.hpp"
#include "services/lifecycle/adapters/codec.hpp"
#include "services/lifecycle/app/works.hpp"
#include "services/lifecycle/domain/name.hpp"

namespace nodus::lifecycle {

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
  auto found = view(project, name);
  if (!found) return std::unexpected(std::move(found.error()));
  return std::move(found->sandbox);
}

Result<Process> PostgresCatalog::process(const ProcessUid& uid) {
  auto head = log_.head(process_stream(uid));
  if (!head) return std::unexpected(std::move(head.error()));
  if (head->version == 0) return fail(Code::kNotFound, "NotFound", "There is no such Process.");
  return ProcessCodec::decode_state(head->state);
}

Result<Process> PostgresCatalog::process(const ProjectId& project, const std::string& name) {
  auto found = process_view(project, name);
  if (!found) return std::unexpected(std::move(found.error()));
  return std::move(found->process);
}

Result<std::string> PostgresCatalog::sealed_env(const SandboxUid& uid) {
  return pg::read(pool_, [&](pqxx::nontransaction& reader) -> Result<std::string> {
    const auto rows = reader.exec_params("SELECT sealed FROM sandbox_env WHERE uid = $1", uid.str());
    if (rows.empty()) return std::string();
    return pqxx::binarystring(rows[0][0]).str();
  });
}

Result<bool> PostgresCatalog::busy(const SandboxUid& uid) {
  return pg::read(pool_, [&](pqxx::nontransaction& reader) -> Result<bool> {
    const auto rows = reader.exec_params(
        "SELECT EXISTS (SELECT 1 FROM processes WHERE sandbox_uid = $1 AND NOT ended)", uid.str());
    return rows[0][0].as<bool>();
  });
}

Result<std::optional<Instant>> PostgresCatalog::funds_changed_at(const OrgId& org) {
  return pg::read(pool_, [&](pqxx::nontransaction& reader) -> Result<std::optional<Instant>> {
    const auto rows = reader.exec_params("SELECT changed_us FROM funds WHERE org = $1", org.str());
    if (rows.empty()) return std::nullopt;
    return from_micros(rows[0][0].as<int64_t>());
  });
}

}  // namespace nodus::lifecycle
