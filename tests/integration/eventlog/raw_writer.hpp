// A writer by hand, on a connection of its own, that can stop or die between any two statements.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <string>

#include "libs/eventlog/event_log.hpp"

namespace nodus::eventlog::contract {

class RawWriter {
 public:
  explicit RawWriter(const std::string& url)
      : connection_(std::make_unique<pqxx::connection>(url + " options='-c search_path=lifecycle'")) {
    tx_ = std::make_unique<pqxx::work>(*connection_);
  }
  ~RawWriter() { die(); }

  // As run() does it; waits for the head. A head that another makes at this moment takes a second look.
  void lock(const std::string& stream) {
    pqxx::result rows;
    while (rows.empty())
      rows = tx_->exec_params(
          "SELECT head_version, head_place FROM log_take_heads(ARRAY[$1]::text[], ARRAY[$2]::int[], true)",
          stream, partition_of(stream, 4));
    version_ = rows[0][0].as<int64_t>();
    place_ = rows[0][1].as<std::string>();
  }
  // Needs the lock. Holds the partition from here on.
  void append(const std::string& stream) {
    ++version_;
    int partition = partition_of(stream, 4);
    tx_->exec_params(
        "SELECT log_write(ARRAY[$4]::tid[], ARRAY[$2]::bigint[], ARRAY[1], ARRAY[$2::text::bytea], '{}', "
        "'{}', '{}',"
        " '{}', '{}', ARRAY[$3::int], 0, ARRAY[$3::int], ARRAY[1::bigint], ARRAY[$1]::text[], "
        "ARRAY[$2]::bigint[],"
        " ARRAY['test.Raw'], ARRAY['x'::bytea])",
        stream, version_, partition, place_);
  }
  pqxx::work& tx() { return *tx_; }
  void commit() { tx_->commit(); }
  void roll_back() { tx_->abort(); }
  void die() {  // closes the socket, as the kernel does for a killed process
    if (!connection_) return;
    shutdown(connection_->sock(), SHUT_RDWR);
    tx_.reset();
    connection_.reset();
  }

 private:
  std::unique_ptr<pqxx::connection> connection_;
  std::unique_ptr<pqxx::work> tx_;
  int64_t version_ = 0;
  std::string place_;
};

}  // namespace nodus::eventlog::contract
