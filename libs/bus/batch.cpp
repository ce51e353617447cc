#include "libs/bus/batch.hpp"

#include <fmt/core.h>

#include "libs/base/check.hpp"
#include "libs/bus/inbox.hpp"
#include "libs/telemetry/failpoint.hpp"

namespace nodus::bus {
namespace {

Error behind() {
  return {Code::kConflict, kBehind, "An earlier message of this stream is parked.", {}, {}, {}};
}

class Batch {
 public:
  Batch(std::span<const Item> items, const std::map<int, int64_t>& applied,
        const std::set<std::string>& blocked)
      : items_(items), applied_(applied), known_blocked_(blocked), blocked_(blocked), faults_(items.size()) {
    for (size_t i = 0; i < items_.size(); ++i) {
      const auto& item = items_[i];
      if (blocked_.contains(item.message.stream)) {
        faults_[i] = behind();
      } else if (item.fault) {
        faults_[i] = item.fault;
        blocked_.insert(item.message.stream);
      } else if (item.work) {
        worked_.push_back(i);
        works_.push_back(wrap(i));
      }
    }
  }

  Attempt run(eventlog::EventLog& own, pg::Pool& own_database) {
    Result<> done;
    if (works_.empty()) {
      done = own_database.with_tx([&](pg::Tx& tx) -> Result<> {
        finish(tx);
        return {};
      });
    } else {
      auto results = own.run_together(works_, [&](pg::Tx& tx) { finish(tx); });
      if (!results)
        done = std::unexpected(results.error());
      else
        check_answers(*results);
    }
    return judge(done);
  }

 private:
  eventlog::Work wrap(size_t i) {
    eventlog::Work work;
    // No key: a message is applied once by its position, and a key could fail outside of decide().
    work.streams = items_[i].work->streams;
    work.decide = [this, i](eventlog::Unit& unit) -> Result<std::string> {
      const auto& stream = items_[i].message.stream;
      if (blocked_.contains(stream)) {
        faults_[i] = behind();
        return std::unexpected(*faults_[i]);
      }
      auto answer = items_[i].work->decide(unit);
      if (answer) return answer;
      faults_[i] = answer.error();
      blocked_.insert(stream);
      if (retryable(answer.error().code)) retry_ = answer.error();
      return answer;
    };
    return work;
  }

  // The last statements of the transaction, after every decide().
  void finish(pg::Tx& tx) {
    if (retry_) throw pqxx::transaction_rollback("a message must be tried again");
    std::map<int, Offset> next;
    for (const auto& item : items_)
      next[item.message.partition] = {item.message.position, item.message.cursor};
    for (const auto& [partition, offset] : next) {
      if (inbox::move_offset(tx, topic(), partition, applied_.at(partition), offset)) continue;
      stale_ = true;
      throw pqxx::transaction_rollback("another replica moved the offset");
    }
    park_faults(tx);
    if (failpoint("bus.before_commit")) throw pqxx::broken_connection("failpoint bus.before_commit");
  }

  void park_faults(pg::Tx& tx) {
    std::set<std::string> held;
    for (size_t i = 0; i < items_.size(); ++i) {
      if (!faults_[i]) continue;
      const auto& stream = items_[i].message.stream;
      if (known_blocked_.contains(stream) && held.insert(stream).second &&
          !inbox::hold_parked(tx, topic(), stream)) {
        stale_ = true;
        throw pqxx::transaction_rollback("the stream is not parked any more");
      }
      inbox::park(tx, items_[i].message, describe(*faults_[i]));
    }
  }

  void check_answers(const std::vector<Result<std::string>>& results) const {
    CHECK(results.size() == works_.size(), "{} answers to {} works", results.size(), works_.size());
    for (size_t k = 0; k < results.size(); ++k)
      CHECK(results[k] || faults_[worked_[k]], "{} was neither applied nor parked: {}",
            items_[worked_[k]].message.type, results[k].error().message);
  }

  Attempt judge(const Result<>& done) const {
    Attempt attempt;
    if (done) {
      for (size_t i = 0; i < items_.size(); ++i)
        if (faults_[i]) attempt.parked.emplace_back(&items_[i].message, *faults_[i]);
    } else if (stale_) {
      attempt.outcome = Outcome::kStale;
    } else {
      attempt.error = retry_ ? *retry_ : done.error();
      attempt.outcome = retryable(attempt.error.code) ? Outcome::kRetry : Outcome::kRejected;
    }
    return attempt;
  }

  const std::string& topic() const { return items_.front().message.topic; }

  const std::span<const Item> items_;
  const std::map<int, int64_t>& applied_;
  const std::set<std::string>& known_blocked_;
  std::set<std::string> blocked_;  // known_blocked_ and what failed in this batch
  std::vector<std::optional<Error>> faults_;
  std::vector<eventlog::Work> works_;
  std::vector<size_t> worked_;  // the item of each of works_
  std::optional<Error> retry_;
  bool stale_ = false;
};

}  // namespace

std::string describe(const Error& error) {
  return fmt::format("{}: {}", error.reason, error.message);
}

Attempt apply_items(eventlog::EventLog& own, pg::Pool& own_database, std::span<const Item> items,
                    const std::map<int, int64_t>& applied, const std::set<std::string>& blocked) {
  CHECK(!items.empty());
  return Batch(items, applied, blocked).run(own, own_database);
}

}  // namespace nodus::bus
