#include "libs/eventlog/postgres_round.hpp"

#include "libs/base/check.hpp"
#include "libs/pg/arrays.hpp"

namespace nodus::eventlog {
namespace {

using Views = std::vector<std::string_view>;

std::string bytes(const pqxx::field& field) {
  return pqxx::binarystring(field).str();
}

// Claims the keys of all Works, in order; what others hold uncommitted is waited for. Returns what we
// claimed.
std::set<std::string> claim_keys(pqxx::work& tx, std::span<const Work* const> works, Batch& batch) {
  std::map<std::string_view, std::string_view> keys;
  for (const Work* work : works)
    if (!work->key.empty()) keys.emplace(work->key, work->input_hash);
  if (keys.empty()) return {};
  Views names, hashes;
  std::set<std::string> claimed;
  for (const auto& [key, hash] : keys) {
    names.push_back(key);
    hashes.push_back(hash);
    claimed.insert(std::string(key));
  }
  tx.conn().prepare("log_claim", "SELECT taken_key, taken_hash, taken_answer FROM log_claim($1, $2)");
  for (const auto& row : tx.exec_prepared("log_claim", pg::text_array(names), pg::text_array(hashes))) {
    auto key = row[0].as<std::string>();
    claimed.erase(key);
    batch.add_accepted(key, {row[1].as<std::string>(), bytes(row[2])});
  }
  return claimed;
}

// Returns the streams that had no head row before.
void lock_heads(pqxx::work& tx, std::span<const Work* const> works, const Round& round, Batch& batch) {
  std::set<std::string_view> streams;
  for (const Work* work : works)
    if (!batch.known(*work)) streams.insert(work->streams.begin(), work->streams.end());
  if (streams.empty()) return;
  std::vector<int32_t> parts;
  for (auto stream : streams) parts.push_back(partition_of(std::string(stream), round.partitions));
  tx.conn().prepare(
      "log_lock_heads",
      "SELECT head_stream, head_version, head_state_version, head_state FROM log_lock_heads($1, $2, $3)");
  for (const auto& row :
       tx.exec_prepared("log_lock_heads", pg::text_array(Views(streams.begin(), streams.end())),
                        pg::int4_array(parts), round.may_wait))
    batch.add_head({row[0].as<std::string>(), row[1].as<int64_t>(), row[2].as<int>(), bytes(row[3])});
}

// Puts the events in their partitions and counts them there: 1, 2, 3 …
std::map<int, int64_t> number_events(const Round& round, std::vector<Recorded>& events) {
  std::map<int, int64_t> counts;
  for (auto& event : events) {
    event.partition = partition_of(event.stream, round.partitions);
    event.position = ++counts[event.partition];
    event.at = round.now;
  }
  return counts;
}

pqxx::result append(pqxx::work& tx, Batch& batch, const std::set<std::string>& claimed, const Round& round,
                    const std::map<int, int64_t>& counts) {
  Views h_stream, h_state, unused_streams, k_key, k_hash, k_answer, unused_keys, e_stream, e_type, e_payload;
  std::vector<int64_t> h_version, e_offset, e_version;
  std::vector<int32_t> h_state_version, parts, e_part;
  for (const auto& [stream, head] : batch.heads) {
    if (batch.changed.contains(stream)) {
      h_stream.push_back(stream);
      h_version.push_back(head.version);
      h_state_version.push_back(head.state_version);
      h_state.push_back(head.state);
    } else if (head.version == 0) {
      unused_streams.push_back(stream);
    }
  }
  for (const auto& [key, accepted] : batch.accepted) {
    k_key.push_back(key);
    k_hash.push_back(accepted.input_hash);
    k_answer.push_back(accepted.answer);
  }
  for (const auto& key : claimed)
    if (!batch.accepted.contains(key)) unused_keys.push_back(key);
  for (const auto& [part, count] : counts) parts.push_back(part);
  for (const auto& event : batch.events) {
    e_part.push_back(event.partition);
    e_offset.push_back(event.position);
    e_stream.push_back(event.stream);
    e_version.push_back(event.version);
    e_type.push_back(event.type);
    e_payload.push_back(event.payload);
  }
  tx.conn().prepare(
      "log_append",
      "SELECT base_partition, base_position FROM log_append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,"
      " $11, $12, $13, $14, $15, $16, $17)");
  return tx.exec_prepared(
      "log_append", pg::text_array(h_stream), pg::int8_array(h_version), pg::int4_array(h_state_version),
      pg::bytea_array(h_state), pg::text_array(unused_streams), pg::text_array(k_key), pg::text_array(k_hash),
      pg::bytea_array(k_answer), pg::text_array(unused_keys), pg::int4_array(parts), to_micros(round.now),
      pg::int4_array(e_part), pg::int8_array(e_offset), pg::text_array(e_stream), pg::int8_array(e_version),
      pg::text_array(e_type), pg::bytea_array(e_payload));
}

}  // namespace

Outcome run_round(pqxx::work& tx, std::span<const Work* const> works, const Round& round,
                  const std::function<void(pqxx::work&)>* also,
                  const std::function<void(pqxx::work&, std::vector<std::any>&)>& on_append) {
  Batch batch(&tx);
  auto claimed = claim_keys(tx, works, batch);
  lock_heads(tx, works, round, batch);
  Outcome outcome;
  for (const Work* work : works) {
    if (auto known = batch.known(*work)) {
      outcome.answers.push_back(std::move(*known));
    } else if (batch.has_heads(*work)) {
      outcome.answers.push_back(batch.decide(*work));
    } else {
      outcome.answers.push_back(std::nullopt);
    }
  }
  if (also != nullptr && *also) {
    (*also)(tx);
    outcome.wrote = true;
  }
  if (on_append && !batch.staged.empty()) {
    on_append(tx, batch.staged);
    outcome.wrote = true;
  }
  outcome.wrote |= batch.projected || !batch.changed.empty() || !batch.accepted.empty();
  if (!outcome.wrote) return outcome;
  auto counts = number_events(round, batch.events);
  std::map<int, int64_t> bases;
  for (const auto& row : append(tx, batch, claimed, round, counts))
    bases[row[0].as<int>()] = row[1].as<int64_t>();
  CHECK(bases.size() == counts.size(), "positions of {} partitions for {}", bases.size(), counts.size());
  outcome.recorded = std::move(batch.events);
  for (auto& event : outcome.recorded) event.position += bases.at(event.partition);
  return outcome;
}

}  // namespace nodus::eventlog
