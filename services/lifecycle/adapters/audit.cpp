#include "services/lifecycle/adapters/audit.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <charconv>
#include <fstream>

#include "libs/base/random.hpp"
#include "libs/pg/arrays.hpp"
#include "libs/telemetry/log.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;

namespace {

constexpr size_t kMaxObject = 256;

std::string line_of(const AuditRecord& r) {
  return json::serialize(json::array{to_micros(r.at), r.id, r.org, r.key_id, r.key_name, r.role, r.project,
                                     r.method, r.route, r.object, r.status, r.reason, r.peer}) +
         "\n";
}

std::optional<AuditRecord> record_of(const std::string& line) {
  boost::system::error_code fault;
  const json::value value = json::parse(line, fault);
  if (fault || !value.is_array() || value.get_array().size() != 13) return std::nullopt;
  const auto& a = value.get_array();
  if (!a[0].is_int64() || !a[10].is_int64()) return std::nullopt;
  for (const size_t i : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12})
    if (!a[i].is_string()) return std::nullopt;
  const auto text = [&](size_t i) { return std::string(a[i].get_string()); };
  return AuditRecord{from_micros(a[0].get_int64()),
                     text(1),
                     text(2),
                     text(3),
                     text(4),
                     text(5),
                     text(6),
                     text(7),
                     text(8),
                     text(9),
                     static_cast<int>(a[10].get_int64()),
                     text(11),
                     text(12)};
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
  return true;
}

AuditRecord record_of(const pqxx::row& row) {
  return {from_micros(row[0].as<int64_t>()), row[1].as<std::string>(), row[2].as<std::string>(),
          row[3].as<std::string>(),          row[4].as<std::string>(), row[5].as<std::string>(),
          row[6].as<std::string>(),          row[7].as<std::string>(), row[8].as<std::string>(),
          row[9].as<std::string>(),          row[10].as<int>(),        row[11].as<std::string>(),
          row[12].as<std::string>()};
}

std::unexpected<Error> bad_continue() {
  return fail(Code::kBadRequest, "BadRequest", "continue: send what the page before answered.");
}

}  // namespace

Result<void> write_audit(pg::Tx& tx, const std::vector<AuditRecord>& records) {
  std::vector<int64_t> at;
  std::vector<int32_t> status;
  std::vector<std::string_view> columns[11];
  for (const auto& r : records) {
    at.push_back(to_micros(r.at));
    status.push_back(r.status);
    const std::string_view values[11] = {r.id,     r.org,   r.key_id, r.key_name, r.role, r.project,
                                         r.method, r.route, r.object, r.reason,   r.peer};
    for (size_t i = 0; i < 11; ++i) columns[i].push_back(values[i]);
  }
  tx.exec_params0(
      "INSERT INTO audit (at_us, id, org, key_id, key_name, role, project, method, route, object, status, "
      "reason, "
      "peer) SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], "
      "$7::text[], $8::text[], $9::text[], $10::text[], $11::integer[], $12::text[], $13::text[]) "
      "ON CONFLICT DO NOTHING",
      pg::int8_array(at), pg::text_array(columns[0]), pg::text_array(columns[1]), pg::text_array(columns[2]),
      pg::text_array(columns[3]), pg::text_array(columns[4]), pg::text_array(columns[5]),
      pg::text_array(columns[6]), pg::text_array(columns[7]), pg::text_array(columns[8]),
      pg::int4_array(status), pg::text_array(columns[9]), pg::text_array(columns[10]));
  return {};
}

AuditLog::AuditLog(pg::Pool& pool, AuditOptions options)
    : pool_(pool),
      options_(std::move(options)),
      unspooled_(metrics::counter("nodus_lifecycle_audit_unspooled_total",
                                  "Audit rows that the spool file could not take.")) {}

AuditLog::~AuditLog() {
  thread_ = {};
  if (auto written = flush(); !written)
    log::error("audit.not_flushed", {{"reason", written.error().reason}, {"spool", options_.spool}});
  if (spool_ >= 0) close(spool_);
}

Result<void> AuditLog::start() {
  if (!options_.spool.empty()) {
    spool_ = open(options_.spool.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (spool_ < 0 || flock(spool_, LOCK_EX | LOCK_NB) != 0)
      return fail(Code::kUnavailable, "AuditSpoolUnavailable",
                  "audit.spool: " + options_.spool + " cannot be written, or another process has it.");
    std::ifstream left(options_.spool);
    for (std::string line; std::getline(left, line);)
      if (auto record = record_of(line)) waiting_.push_back(std::move(*record));
    spooled_ = true;
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  return {};
}

bool AuditLog::room() const {
  std::lock_guard lock(mutex_);
  return waiting_.size() < options_.capacity;
}

void AuditLog::add(AuditRecord record) {
  if (record.id.empty()) record.id = random_uuid();
  if (record.object.size() > kMaxObject) record.object.resize(kMaxObject);
  {
    std::lock_guard lock(mutex_);
    if (spool_ >= 0) {
      spooled_ = true;
      if (!write_all(spool_, line_of(record))) unspooled_.add();
    }
    // Beyond the capacity there are at most as many as requests were admitted while there was room.
    waiting_.push_back(std::move(record));
    if (waiting_.size() < options_.batch) return;
  }
  changed_.notify_one();
}

void AuditLog::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, options_.flush_every,
                        [this] { return waiting_.size() >= options_.batch; });
      if (waiting_.empty()) continue;
    }
    if (auto written = flush(); !written) {
      log::warn("audit.waiting", {{"reason", written.error().reason}});
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, Millis(1'000), [] { return false; });
    }
  }
}

Result<void> AuditLog::flush() {
  while (true) {
    auto wrote = write_batch();
    if (!wrote) return std::unexpected(std::move(wrote.error()));
    if (*wrote == 0) return {};
  }
}

Result<size_t> AuditLog::write_batch() {
  std::lock_guard one(writing_);
  std::vector<AuditRecord> batch;
  {
    std::lock_guard lock(mutex_);
    const auto end = waiting_.begin() + static_cast<ptrdiff_t>(std::min(waiting_.size(), options_.batch));
    batch.assign(waiting_.begin(), end);
  }
  if (batch.empty()) return 0;
  auto done = pool_.with_tx([&](pg::Tx& tx) { return write_audit(tx, batch); });
  if (!done) return std::unexpected(std::move(done.error()));
  std::lock_guard lock(mutex_);
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(batch.size()));
  if (waiting_.empty() && spooled_ && ftruncate(spool_, 0) == 0) spooled_ = false;
  return batch.size();
}

Result<AuditPage> AuditLog::page(const OrgId& org, const AuditQuery& query) {
  int64_t before_us = INT64_MAX;
  std::string before_id;
  if (!query.after.empty()) {
    const size_t dash = query.after.find('-');
    if (dash == std::string::npos || query.after.size() > 64) return bad_continue();
    const char* end = query.after.data() + dash;
    if (const auto [at, fault] = std::from_chars(query.after.data(), end, before_us);
        fault != std::errc() || at != end)
      return bad_continue();
    before_id = query.after.substr(dash + 1);
  }
  return pool_.with_tx([&](pg::Tx& tx) -> Result<AuditPage> {
    AuditPage page;
    for (const auto& row :
         tx.exec_params("SELECT at_us, id, org, key_id, key_name, role, project, method, route, object, "
                        "status, reason, peer "
                        "FROM audit WHERE org = $1 AND (at_us, id) < ($2, $3) AND ($4 = '' OR key_id = $4 OR "
                        "key_name = $4) "
                        "AND ($5 = '' OR project = $5) AND ($6 = '' OR route = $6) ORDER BY at_us DESC, id "
                        "DESC LIMIT $7",
                        org.str(), before_us, before_id, query.key, query.project, query.route, query.limit))
      page.records.push_back(record_of(row));
    if (static_cast<int>(page.records.size()) == query.limit)
      page.next = fmt::format("{}-{}", to_micros(page.records.back().at), page.records.back().id);
    return page;
  });
}

}  // namespace nodus::lifecycle
