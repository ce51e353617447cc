#include "services/lifecycle/adapters/change_keeper.hpp"

#include "libs/telemetry/log.hpp"
#include "services/lifecycle/adapters/changes.hpp"
#include "services/lifecycle/app/works.hpp"

namespace nodus::lifecycle {

namespace {
constexpr int kPage = 5000;
constexpr int kNumbered = 200;
}  // namespace

ChangeKeeper::ChangeKeeper(eventlog::Batcher& batcher, pg::Pool& pool, const Clock& clock,
                           ChangeKeeping keeping)
    : batcher_(batcher), pool_(pool), clock_(clock), keeping_(keeping), loop_([this] {
        if (auto done = step(); !done) log::warn("changes.failed", {{"reason", done.error().reason}});
        return keeping_.poll;
      }) {
  loop_.start();
}

ChangeKeeper::~ChangeKeeper() {
  loop_.stop();
}

Result<void> ChangeKeeper::step() {
  for (bool more = !numbered_; more;) {
    auto numbered = number_old_ones();
    if (!numbered) return std::unexpected(std::move(numbered.error()));
    more = *numbered;
  }
  numbered_ = true;
  for (bool more = true; more;) {
    auto dropped = drop_changes();
    if (!dropped) return std::unexpected(std::move(dropped.error()));
    more = *dropped;
  }
  return run(ExpireNote{}, {});
}

Result<void> ChangeKeeper::run(std::any note, std::vector<std::string> streams) {
  auto done = batcher_.run({.key = "",
                            .input_hash = "",
                            .streams = std::move(streams),
                            .decide = [note](eventlog::Unit& unit) -> Result<std::string> {
                              unit.stage(note);
                              return "";
                            }});
  if (!done) return std::unexpected(std::move(done.error()));
  return {};
}

Result<bool> ChangeKeeper::number_old_ones() {
  auto found = pool_.with_tx([](pg::Tx& tx) -> Result<std::vector<SandboxUid>> {
    std::vector<SandboxUid> out;
    for (const auto& row : tx.exec_params("SELECT s.uid FROM sandboxes s WHERE NOT EXISTS "
                                          "(SELECT 1 FROM sandbox_told t WHERE t.uid = s.uid) LIMIT $1",
                                          kNumbered))
      out.emplace_back(row[0].as<std::string>());
    return out;
  });
  if (!found) return std::unexpected(std::move(found.error()));
  for (const auto& uid : *found)
    if (auto done = run(RetellNote{uid}, {sandbox_stream(uid)}); !done)
      return std::unexpected(std::move(done.error()));
  return std::ssize(*found) == kNumbered;
}

// The floor rises before rows go, in one transaction: who reads a page sees both.
Result<bool> ChangeKeeper::drop_changes() {
  return pool_.with_tx([&](pg::Tx& tx) -> Result<bool> {
    const auto row = tx.exec_params1(
        "WITH f AS (SELECT position FROM changes_floor FOR UPDATE), l AS (SELECT max(position) AS last FROM "
        "changes), "
        "old AS (SELECT max(x.position) AS position FROM (SELECT c.position, c.at_us FROM changes c, f "
        "WHERE c.position > f.position ORDER BY c.position LIMIT $3) x WHERE x.at_us < $1) "
        "SELECT f.position, least(greatest(f.position, old.position, l.last - $2), l.last - 1, f.position + "
        "$3) "
        "FROM f, l, old",
        to_micros(clock_.now() - keeping_.age), keeping_.rows, kPage);
    const auto floor = row[0].as<int64_t>();
    const auto cut = row[1].is_null() ? floor : row[1].as<int64_t>();
    if (cut <= floor) return false;
    tx.exec_params0("UPDATE changes_floor SET position = $1", cut);
    tx.exec_params0("DELETE FROM changes WHERE position <= $1", cut);
    return cut == floor + kPage;
  });
}

}  // namespace nodus::lifecycle
