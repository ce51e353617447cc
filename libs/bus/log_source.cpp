#include "libs/bus/log_source.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "libs/telemetry/log.hpp"

namespace nodus::bus {
namespace {

constexpr Millis kBusyPoll{20};

class Doorbell final : public pqxx::notification_receiver {
 public:
  using notification_receiver::notification_receiver;
  void operator()(const std::string&, int) override {}  // await_notification() returns; that is enough
  bool connected() const { return conn().is_open(); }
};

class LogSource final : public Source {
 public:
  LogSource(const std::string& topic, int partitions, pg::ConnectOptions database, OffsetOf offset_of)
      : topic_(topic),
        // One statement for all partitions: an idle service costs its database one round trip a poll.
        query_(
            fmt::format("SELECT e.log_partition, e.position, e.stream, e.version, e.type, e.payload, e.at_us "
                        "FROM unnest($1::int[], $2::bigint[]) AS c(log_partition, position), LATERAL "
                        "(SELECT * FROM {}.published_events p WHERE p.log_partition = c.log_partition "
                        "AND p.position > c.position ORDER BY p.position LIMIT $3) e",
                        topic)),
        offset_of_(std::move(offset_of)),
        cursors_(static_cast<size_t>(partitions)),
        connection_(std::move(database)) {}

  Result<std::vector<Message>> poll(int max, Millis timeout) override {
    for (int partition = 0; std::cmp_less(partition, cursors_.size()); ++partition)
      at_end_[partition] = false;
    for (int partition = 0; auto& cursor : cursors_) {
      if (!cursor) {
        auto offset = offset_of_(partition);
        if (!offset) return std::unexpected(std::move(offset.error()));
        cursor = offset->position;
      }
      ++partition;
    }
    try {
      return read_or_wait(max, timeout);
    } catch (const std::exception& e) {
      bell_.reset();  // before its connection
      connection_.disconnect();
      return fail(Code::kUnavailable, "DatabaseUnavailable",
                  fmt::format("The log of {} cannot be read: {}", topic_, e.what()));
    }
  }

  std::map<int, bool> at_end() const override { return at_end_; }

  void rewind(int partition) override { cursors_.at(static_cast<size_t>(partition)).reset(); }

 private:
  std::vector<Message> read_or_wait(int max, Millis timeout) {
    if (bell_ && !bell_->connected()) bell_.reset();  // raw() is about to replace its connection
    auto& connection = connection_.raw();
    if (!bell_) listen(connection);
    auto messages = read(connection, max);
    if (messages.empty()) {
      const auto wait = std::chrono::duration_cast<Micros>(busy_ ? std::min(kBusyPoll, timeout) : timeout);
      connection.await_notification(0, static_cast<long>(wait.count()));
      messages = read(connection, max);
    }
    busy_ = !messages.empty();
    return messages;
  }

  void listen(pqxx::connection_base& connection) {
    {
      // A young table has no statistics, and the planner would then read and sort everything after the cursor
      // for each batch instead of walking the primary key.
      pqxx::nontransaction tx(connection);
      tx.exec0("SET enable_sort = off; SET enable_bitmapscan = off; SET enable_seqscan = off");
    }
    bell_ = std::make_unique<Doorbell>(connection, "nodus_" + topic_);
  }

  std::vector<Message> read(pqxx::connection_base& connection, int max) {
    std::string partitions;
    std::string positions;
    for (size_t i = 0; i < cursors_.size(); ++i) {
      partitions += fmt::format("{}{}", i ? "," : "{", i);
      positions += fmt::format("{}{}", i ? "," : "{", *cursors_[i]);
    }
    // A share for each partition, so that a busy one does not starve the others.
    const auto count = static_cast<int>(cursors_.size());
    pqxx::nontransaction tx(connection);
    const int share = (max + count - 1) / count;
    auto rows = tx.exec_params(query_, partitions + "}", positions + "}", share);
    std::vector<int> found(cursors_.size());
    std::vector<Message> messages;
    messages.reserve(rows.size());
    for (const auto& row : rows) {
      Message message;
      message.topic = topic_;
      message.partition = row[0].as<int>();
      message.position = row[1].as<int64_t>();
      message.stream = row[2].as<std::string>();
      message.version = row[3].as<int64_t>();
      message.type = row[4].as<std::string>();
      message.payload = pqxx::binarystring(row[5]).str();
      message.at = from_micros(row[6].as<int64_t>());
      ++found.at(static_cast<size_t>(message.partition));
      auto& cursor = cursors_.at(static_cast<size_t>(message.partition));
      cursor = std::max(*cursor, message.position);
      messages.push_back(std::move(message));
    }
    for (int partition = 0; partition < count; ++partition)
      at_end_[partition] = found.at(static_cast<size_t>(partition)) < share;
    return messages;
  }

  const std::string topic_;
  const std::string query_;
  const OffsetOf offset_of_;
  std::vector<std::optional<int64_t>> cursors_;  // per partition: read so far; none: ask offset_of_
  std::map<int, bool> at_end_;                   // by the last poll
  bool busy_ = false;
  pg::Connection connection_;
  std::unique_ptr<Doorbell> bell_;  // lives on connection_
};

}  // namespace

std::unique_ptr<Source> make_log_source(const std::string& topic, int partitions, pg::ConnectOptions database,
                                        OffsetOf offset_of) {
  return std::make_unique<LogSource>(topic, partitions, std::move(database), std::move(offset_of));
}

}  // namespace nodus::bus
