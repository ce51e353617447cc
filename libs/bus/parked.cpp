// Operator commands on parked messages. They may run in another process than the consumer: row locks on the
// parked rows keep the two in order (inbox::hold_parked).
#include "libs/bus/batch.hpp"
#include "libs/bus/inbox.hpp"

namespace nodus::bus {
namespace {

enum class Step { kApplied, kFailedAgain, kGone };

Result<Step> note_failure(pg::Pool& database, int64_t id, const Error& error) {
  return database.with_tx([&](pg::Tx& tx) -> Result<Step> {
    inbox::set_error(tx, id, describe(error));
    return Step::kFailedAgain;
  });
}

Result<Step> apply_one(eventlog::EventLog& own, pg::Pool& database, const Parked& parked,
                       const eventlog::Work& routed) {
  std::optional<Error> failed;
  bool gone = false;
  eventlog::Work work;
  work.streams = routed.streams;
  work.decide = [&](eventlog::Unit& unit) {
    auto answer = routed.decide(unit);
    if (!answer) failed = answer.error();
    return answer;
  };
  auto done = own.run_together(std::span(&work, 1), [&](pg::Tx& tx) {
    gone = !failed && !inbox::remove_parked(tx, parked.id);
    if (failed || gone) throw pqxx::transaction_rollback("not replayed");
  });
  if (done) return Step::kApplied;
  if (gone) return Step::kGone;
  const auto& error = failed ? *failed : done.error();
  if (retryable(error.code)) return std::unexpected(error);
  return note_failure(database, parked.id, error);
}

Result<Step> replay_one(eventlog::EventLog& own, pg::Pool& database, const Route& route,
                        const Parked& parked) {
  auto routed = route(parked.message);
  if (!routed) {
    if (retryable(routed.error().code)) return std::unexpected(routed.error());
    return note_failure(database, parked.id, routed.error());
  }
  if (*routed) return apply_one(own, database, parked, **routed);
  return database.with_tx([&](pg::Tx& tx) -> Result<Step> {
    return inbox::remove_parked(tx, parked.id) ? Step::kApplied : Step::kGone;
  });
}

}  // namespace

Result<std::vector<Parked>> list_parked(pg::Pool& own_database, int limit) {
  return own_database.with_tx(
      [&](pg::Tx& tx) -> Result<std::vector<Parked>> { return inbox::list_parked(tx, limit); });
}

Result<int> replay_parked(eventlog::EventLog& own, pg::Pool& own_database, const Route& route,
                          const std::string& topic, const std::string& stream) {
  for (int applied = 0;;) {
    auto first = own_database.with_tx(
        [&](pg::Tx& tx) -> Result<std::optional<Parked>> { return inbox::first_parked(tx, topic, stream); });
    if (!first) return std::unexpected(std::move(first.error()));
    if (!*first) return applied;
    auto step = replay_one(own, own_database, route, **first);
    if (!step) return std::unexpected(std::move(step.error()));
    if (*step == Step::kFailedAgain) return applied;
    if (*step == Step::kApplied) ++applied;
  }
}

Result<int> skip_parked(pg::Pool& own_database, const std::string& topic, const std::string& stream) {
  return own_database.with_tx(
      [&](pg::Tx& tx) -> Result<int> { return inbox::remove_stream(tx, topic, stream); });
}

}  // namespace nodus::bus
