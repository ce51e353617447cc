#include "libs/eventlog/postgres_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "libs/base/check.hpp"
#include "libs/eventlog/postgres_round.hpp"
#include "libs/pg/reader.hpp"
#include "libs/telemetry/failpoint.hpp"
#include "libs/telemetry/metrics.hpp"

namespace nodus::eventlog {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
constexpr Millis kPatience{6'000};  // for all rounds of one run()

Error stream_busy() {
  return {Code::kUnavailable, "StreamBusy", "What this request changes is busy; try again soon.", {}, 1, {}};
}

Error fault(const char* reason) {  // what a failpoint pretends
  return {Code::kUnavailable, reason, "A fault point failed this transaction.", {}, 1, {}};
}

Recorded to_recorded(const pqxx::row& row) {
  return {row[0].as<int>(),
          row[1].as<int64_t>(),
          row[2].as<std::string>(),
          row[3].as<int64_t>(),
          row[4].as<std::string>(),
          pqxx::binarystring(row[5]).str(),
          from_micros(row[6].as<int64_t>())};
}

class PostgresLog final : public EventLog {
 public:
  PostgresLog(const Clock& clock, pg::Pool& pool, int partitions)
      : clock_(clock), pool_(pool), partitions_(partitions) {}

  int partitions() const override { return partitions_; }

  std::vector<Result<std::string>> run(std::span<const Work> works) override {
    Answers answers(works.size());
    Pending pending;
    for (size_t i = 0; i < works.size(); ++i) {
      if (auto refused = refuse(works[i])) {
        answers[i] = std::unexpected(std::move(*refused));
      } else {
        pending.works.push_back(&works[i]);
        pending.answers.push_back(&answers[i]);
      }
    }
    run_rounds(std::move(pending), std::chrono::steady_clock::now() + kPatience);
    std::vector<Result<std::string>> out;
    for (auto& answer : answers) out.push_back(std::move(*answer));
    return out;
  }

  Result<std::vector<Result<std::string>>> run_together(std::span<const Work> works,
                                                        const std::function<void(pg::Tx&)>& also) override {
    std::vector<const Work*> usable;
    std::vector<std::optional<Error>> refused;
    for (const auto& work : works) {
      refused.push_back(refuse(work));
      if (!refused.back()) usable.push_back(&work);
    }
    auto answers = transact(usable, true, &also);
    for (int again = 0; !answers && answers.error().reason == "StreamBusy" && again < 3; ++again)
      answers = transact(usable, true, &also);  // somebody made one of the heads at this very moment
    if (!answers) return std::unexpected(std::move(answers.error()));
    std::vector<Result<std::string>> out;
    auto next = answers->begin();
    for (auto& error : refused) {
      if (error) {
        out.push_back(std::unexpected(std::move(*error)));
      } else {
        CHECK(next->has_value(), "a head was neither locked nor waited for");
        out.push_back(std::move(**next++));
      }
    }
    return out;
  }

  Result<std::vector<Recorded>> read(int partition, int64_t after, int limit) override {
    return select("log_read",
                  "SELECT log_partition, position, stream, version, type, payload, at_us FROM events"
                  " WHERE log_partition = $1 AND position > $2 ORDER BY position LIMIT $3",
                  partition, after, limit);
  }

  Result<std::vector<Recorded>> read_stream(const std::string& stream, int64_t after_version,
                                            int limit) override {
    return select("log_read_stream",
                  "SELECT log_partition, position, stream, version, type, payload, at_us FROM events"
                  " WHERE stream = $1 AND version > $2 ORDER BY version LIMIT $3",
                  stream, after_version, limit);
  }

  Result<Head> head(const std::string& stream) override {
    return pg::read(pool_, [&](pqxx::nontransaction& reader) -> Result<Head> {
      reader.conn().prepare("log_head", "SELECT version, state_version, state FROM heads WHERE stream = $1");
      auto rows = reader.exec_prepared("log_head", stream);
      if (rows.empty()) return Head{stream, 0, 0, {}};
      return Head{stream, rows[0][0].as<int64_t>(), rows[0][1].as<int>(),
                  pqxx::binarystring(rows[0][2]).str()};
    });
  }

  Result<int64_t> last_position(int partition) override {
    return pool_.with_tx([&](pg::Tx& tx) -> Result<int64_t> {
      auto rows = tx.exec_params(
          "SELECT position FROM events WHERE log_partition = $1 ORDER BY position DESC LIMIT 1", partition);
      return rows.empty() ? 0 : rows[0][0].as<int64_t>();
    });
  }

  Result<Ages> ages() override {
    return pool_.with_tx([&](pg::Tx& tx) -> Result<Ages> {
      auto row = tx.exec1(
          "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)) * 1000000, 0)::bigint"
          " FROM pg_stat_activity WHERE usename = current_user AND pid <> pg_backend_pid()");
      return Ages{Micros(std::max<int64_t>(0, row[0].as<int64_t>()))};
    });
  }

 private:
  struct Pending {
    std::vector<const Work*> works;
    std::vector<std::optional<Result<std::string>>*> answers;
  };

  template <class... Args>
  Result<std::vector<Recorded>> select(const char* name, const char* sql, const Args&... args) {
    return pool_.with_tx([&](pg::Tx& tx) -> Result<std::vector<Recorded>> {
      tx.conn().prepare(name, sql);
      std::vector<Recorded> found;
      for (const auto& row : tx.exec_prepared(name, args...)) found.push_back(to_recorded(row));
      return found;
    });
  }

  Result<Answers> transact(const std::vector<const Work*>& works, bool may_wait,
                           const std::function<void(pg::Tx&)>* also) {
    std::optional<Outcome> outcome;
    bool nothing_to_keep = false;
    auto committed = pool_.with_tx([&](pg::Tx& tx) -> Result<void> {
      outcome = run_round(tx, works, Round{partitions_, clock_.now(), may_wait}, also, on_append_);
      bool whole =
          std::ranges::all_of(outcome->answers, [](const auto& answer) { return answer.has_value(); });
      if (also != nullptr && !whole) return std::unexpected(stream_busy());
      nothing_to_keep = !outcome->wrote;
      if (nothing_to_keep) return std::unexpected(Error{});  // rolls back
      return {};
    });
    if (nothing_to_keep) return std::move(outcome->answers);
    if (!committed) return std::unexpected(std::move(committed.error()));
    commits_.add();
    batch_size_.observe(static_cast<double>(works.size()));
    if (failpoint("log.after_commit")) return std::unexpected(fault("CommitUnknown"));
    if (on_commit_ && !outcome->recorded.empty()) on_commit_(outcome->recorded);
    return std::move(outcome->answers);
  }

  // The first round passes over heads that others hold; the second waits for those, in order. If one stays
  // held beyond the lock timeout, a last round answers whoever can be answered without it.
  void run_rounds(Pending pending, SteadyTime deadline) {
    enum class Mode { kSkip, kWait, kLast } mode = Mode::kSkip;
    while (!pending.works.empty()) {
      if (std::chrono::steady_clock::now() > deadline) return answer_all(pending, stream_busy());
      auto answers = transact(pending.works, mode == Mode::kWait, nullptr);
      if (!answers) {
        const Error& error = answers.error();
        bool sure = error.reason == "DatabaseBusy" || error.reason == "DatabaseRejected";
        if (sure && mode == Mode::kWait && error.reason == "DatabaseBusy") {
          mode = Mode::kLast;
          continue;
        }
        if (!sure || pending.works.size() == 1) return answer_all(pending, error);
        return halve(pending, deadline);
      }
      Pending left;
      for (size_t i = 0; i < pending.works.size(); ++i) {
        if ((*answers)[i]) {
          *pending.answers[i] = std::move((*answers)[i]);
        } else {
          left.works.push_back(pending.works[i]);
          left.answers.push_back(pending.answers[i]);
        }
      }
      pending = std::move(left);
      if (mode == Mode::kLast) return answer_all(pending, stream_busy());
      mode = Mode::kWait;
    }
  }

  void halve(const Pending& pending, SteadyTime deadline) {
    auto middle = std::ssize(pending.works) / 2;
    run_rounds({{pending.works.begin(), pending.works.begin() + middle},
                {pending.answers.begin(), pending.answers.begin() + middle}},
               deadline);
    run_rounds({{pending.works.begin() + middle, pending.works.end()},
                {pending.answers.begin() + middle, pending.answers.end()}},
               deadline);
  }

  static void answer_all(const Pending& pending, const Error& error) {
    for (auto* answer : pending.answers) *answer = std::unexpected(error);
  }

  const Clock& clock_;
  pg::Pool& pool_;
  const int partitions_;
  metrics::Counter commits_ =
      metrics::counter("nodus_log_commits_total", "Transactions of the log that committed");
  metrics::Histogram batch_size_ = metrics::histogram(
      "nodus_log_batch_size", "Works in a committed transaction", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512});
  std::shared_ptr<void> oldest_ =
      metrics::gauge_callback("nodus_log_oldest_transaction_seconds",
                              "Age of the oldest open transaction of this service's role", [this] {
                                auto ages = this->ages();
                                if (!ages) return std::numeric_limits<double>::quiet_NaN();
                                return std::chrono::duration<double>(ages->oldest_transaction).count();
                              });
};

}  // namespace

Result<std::unique_ptr<EventLog>> make_postgres_log(const Clock& clock, pg::Pool& pool, int partitions) {
  auto stored = pool.with_tx(
      [](pg::Tx& tx) -> Result<int> { return tx.exec1("SELECT partitions FROM log_settings")[0].as<int>(); });
  if (!stored) return std::unexpected(std::move(stored.error()));
  if (*stored != partitions)
    return fail(Code::kInvalid, "LogPartitionsDiffer",
                fmt::format("log.partitions is {}, but this log was made with {}, for good; set it to {}.",
                            partitions, *stored, *stored));
  if (auto made = ensure_ranges(pool); !made) return std::unexpected(std::move(made.error()));
  return std::make_unique<PostgresLog>(clock, pool, partitions);
}

Result<void> ensure_ranges(pg::Pool& pool) {
  return pool.with_tx([](pg::Tx& tx) -> Result<void> {
    tx.exec("SELECT log_ensure_ranges(2)");
    return {};
  });
}

}  // namespace nodus::eventlog
