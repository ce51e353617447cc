#include "libs/eventlog/postgres_round.hpp"

#include <algorithm>
#include <unordered_map>

#include "libs/base/check.hpp"
#include "libs/pg/arrays.hpp"
#include "libs/telemetry/failpoint.hpp"

namespace nodus::eventlog {
namespace {

using Views = std::vector<std::string_view>;

// Claims the keys of all Works, in order; what others hold uncommitted is waited for. Returns what we
// claimed.
std::set<std::string> claim_keys(pg::Tx& tx, std::span<const Work* const> works, Batch& batch) {
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
  const auto rows = tx.run({"log_claim", "SELECT taken_key, taken_hash, taken_answer FROM log_claim($1, $2)",
                            pg::arrays::texts(names), pg::arrays::texts(hashes)});
  for (int row = 0; row < rows.size(); ++row) {
    std::string key(rows.bytes(row, 0));
    claimed.erase(key);
    batch.add_accepted(key, {std::string(rows.bytes(row, 1)), std::string(rows.bytes(row, 2))});
  }
  return claimed;
}

using Places = std::unordered_map<std::string, std::string>;  // of head rows, by stream

Places lock_heads(pg::Tx& tx, std::span<const Work* const> works, const Round& round, Batch& batch) {
  Views streams;
  for (const Work* work : works)
    if (!batch.known(*work)) streams.insert(streams.end(), work->streams.begin(), work->streams.end());
  if (streams.empty()) return {};
  std::ranges::sort(streams);
  const auto repeated = std::ranges::unique(streams);
  streams.erase(repeated.begin(), repeated.end());
  std::vector<int32_t> parts;
  for (auto stream : streams) parts.push_back(partition_of(stream, round.partitions));
  const auto rows = tx.run({"log_take_heads",
                            "SELECT head_stream, head_version, head_state_version, head_state, head_place"
                            " FROM log_take_heads($1, $2, $3)",
                            pg::arrays::texts(streams), pg::arrays::int4s(parts), round.may_wait});
  Places places;
  places.reserve(streams.size());
  for (int row = 0; row < rows.size(); ++row) {
    std::string stream(rows.bytes(row, 0));
    places.emplace(stream, rows.bytes(row, 4));
    batch.add_head(
        {std::move(stream), rows.int8(row, 1), rows.int4(row, 2), std::string(rows.bytes(row, 3))});
  }
  return places;
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

// Writes the batch and commits. Returns the position before the first new one of each partition.
std::map<int, int64_t> write(pg::Tx& tx, const Batch& batch, const Places& places,
                             const std::set<std::string>& claimed, const Round& round,
                             const std::map<int, int64_t>& counts) {
  Views h_place, h_state, unused_streams, k_key, k_hash, k_answer, unused_keys, e_stream, e_type, e_payload;
  std::vector<int64_t> h_version, e_offset, e_version;
  std::vector<int32_t> h_state_version, parts, e_part;
  for (const auto& [stream, head] : batch.heads) {
    if (batch.changed.contains(stream)) {
      h_place.push_back(places.at(stream));
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
  using namespace pg::arrays;
  const auto rows = tx.commit_with(
      {"log_write",
       "SELECT base_partition, base_position FROM log_write($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,"
       " $12, $13, $14, $15, $16, $17)",
       tids(h_place), int8s(h_version), int4s(h_state_version), byteas(h_state), texts(unused_streams),
       texts(k_key), texts(k_hash), byteas(k_answer), texts(unused_keys), int4s(parts), to_micros(round.now),
       int4s(e_part), int8s(e_offset), texts(e_stream), int8s(e_version), texts(e_type), byteas(e_payload)});
  std::map<int, int64_t> bases;
  for (int row = 0; row < rows.size(); ++row) bases[rows.int4(row, 0)] = rows.int8(row, 1);
  return bases;
}

}  // namespace

Outcome run_round(pg::Tx& tx, std::span<const Work* const> works, const Round& round,
                  const std::function<void(pg::Tx&)>* also,
                  const std::function<void(pg::Tx&, std::vector<std::any>&)>& on_append) {
  Batch batch(&tx);
  auto claimed = claim_keys(tx, works, batch);
  const auto places = lock_heads(tx, works, round, batch);
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
  const auto answered = [](const auto& answer) { return answer.has_value(); };
  if (also != nullptr && !std::ranges::all_of(outcome.answers, answered)) return outcome;  // all or nothing
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
  if (failpoint("log.before_commit")) throw pqxx::broken_connection("fault point log.before_commit");
  auto counts = number_events(round, batch.events);
  const auto bases = write(tx, batch, places, claimed, round, counts);
  CHECK(bases.size() == counts.size(), "positions of {} partitions for {}", bases.size(), counts.size());
  outcome.recorded = std::move(batch.events);
  for (auto& event : outcome.recorded) event.position += bases.at(event.partition);
  return outcome;
}

}  // namespace nodus::eventlog
