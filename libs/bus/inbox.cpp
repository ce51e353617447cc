#include "libs/bus/inbox.hpp"

namespace nodus::bus::inbox {
namespace {

constexpr const char* kParkedColumns =
    "id, topic, log_partition, position, stream, version, type, payload, at_us, error, "
    "(extract(epoch FROM parked_at) * 1000000)::bigint";

Parked to_parked(const pqxx::row& row) {
  Parked parked;
  parked.id = row[0].as<int64_t>();
  parked.message.topic = row[1].as<std::string>();
  parked.message.partition = row[2].as<int>();
  parked.message.position = row[3].as<int64_t>();
  parked.message.stream = row[4].as<std::string>();
  parked.message.version = row[5].as<int64_t>();
  parked.message.type = row[6].as<std::string>();
  parked.message.payload = pqxx::binarystring(row[7]).str();
  parked.message.at = from_micros(row[8].as<int64_t>());
  parked.error = row[9].as<std::string>();
  parked.at = from_micros(row[10].as<int64_t>());
  return parked;
}

}  // namespace

Offset read_offset(pg::Tx& tx, const std::string& topic, int partition) {
  auto rows =
      tx.exec_params("SELECT position, cursor FROM consumer_offsets WHERE topic = $1 AND log_partition = $2",
                     topic, partition);
  if (!rows.empty()) return {rows[0][0].as<int64_t>(), rows[0][1].as<std::string>()};
  tx.exec_params("INSERT INTO consumer_offsets (topic, log_partition) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                 topic, partition);
  return {};
}

bool move_offset(pg::Tx& tx, const std::string& topic, int partition, int64_t expected, const Offset& next) {
  // The comparison is made again on the row's newest version after a wait for its lock, so of two replicas
  // that applied the same messages exactly one commits.
  auto done = tx.exec_params(
      "UPDATE consumer_offsets SET position = $4, cursor = $5 "
      "WHERE topic = $1 AND log_partition = $2 AND position = $3",
      topic, partition, expected, next.position, next.cursor);
  return done.affected_rows() == 1;
}

std::set<std::string> parked_streams(pg::Tx& tx, const std::string& topic) {
  std::set<std::string> streams;
  for (const auto& row : tx.exec_params("SELECT DISTINCT stream FROM parked WHERE topic = $1", topic))
    streams.insert(row[0].as<std::string>());
  return streams;
}

int64_t parked_count(pg::Tx& tx, const std::string& topic) {
  return tx.exec_params1("SELECT count(*) FROM parked WHERE topic = $1", topic)[0].as<int64_t>();
}

void park(pg::Tx& tx, const Message& message, const std::string& error) {
  tx.exec_params(
      "INSERT INTO parked (topic, log_partition, position, stream, version, type, payload, at_us, error) "
      "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
      message.topic, message.partition, message.position, message.stream, message.version, message.type,
      pqxx::binarystring(message.payload), to_micros(message.at), error);
}

bool hold_parked(pg::Tx& tx, const std::string& topic, const std::string& stream) {
  return !tx.exec_params(
                "SELECT id FROM parked WHERE topic = $1 AND stream = $2 ORDER BY position DESC LIMIT 1 "
                "FOR UPDATE",
                topic, stream)
              .empty();
}

std::optional<Parked> first_parked(pg::Tx& tx, const std::string& topic, const std::string& stream) {
  auto rows = tx.exec_params(std::string("SELECT ") + kParkedColumns +
                                 " FROM parked WHERE topic = $1 AND stream = $2 ORDER BY position LIMIT 1",
                             topic, stream);
  if (rows.empty()) return std::nullopt;
  return to_parked(rows[0]);
}

std::vector<Parked> list_parked(pg::Tx& tx, int limit) {
  std::vector<Parked> found;
  for (const auto& row :
       tx.exec_params(std::string("SELECT ") + kParkedColumns + " FROM parked ORDER BY id LIMIT $1", limit))
    found.push_back(to_parked(row));
  return found;
}

bool remove_parked(pg::Tx& tx, int64_t id) {
  return tx.exec_params("DELETE FROM parked WHERE id = $1", id).affected_rows() == 1;
}

void set_error(pg::Tx& tx, int64_t id, const std::string& error) {
  tx.exec_params("UPDATE parked SET error = $2 WHERE id = $1", id, error);
}

int remove_stream(pg::Tx& tx, const std::string& topic, const std::string& stream) {
  return static_cast<int>(
      tx.exec_params("DELETE FROM parked WHERE topic = $1 AND stream = $2", topic, stream).affected_rows());
}

}  // namespace nodus::bus::inbox
