#include "libs/eventlog/batch.hpp"

#include <algorithm>
#include <utility>

#include "libs/base/check.hpp"

namespace nodus::eventlog {
namespace {

constexpr size_t kMaxKey = 512;
constexpr size_t kMaxStream = 256;

class BufferedUnit final : public Unit {
 public:
  BufferedUnit(const Work& work, const std::unordered_map<std::string, Head>& heads, pg::Tx* tx) : tx_(tx) {
    for (const auto& stream : work.streams) heads_.emplace(stream, heads.at(stream));
  }

  const Head& head(const std::string& stream) override { return own(stream); }

  void append(const std::string& stream, std::vector<Event> added, std::string state,
              int state_version) override {
    Head& head = own(stream);
    for (auto& event : added)
      events.push_back(
          {0, 0, stream, ++head.version, std::move(event.type), std::move(event.payload), Instant{}});
    head.state = std::move(state);
    head.state_version = state_version;
    changed.insert(stream);
  }

  pg::Tx* sql() override { return tx_; }
  void project(std::function<void(pg::Tx&)> write) override { projections.push_back(std::move(write)); }
  void stage(std::any note) override { staged.push_back(std::move(note)); }

  Head& own(const std::string& stream) {
    auto found = heads_.find(stream);
    CHECK(found != heads_.end(), "decide() used stream {} without naming it", stream);
    return found->second;
  }

  std::vector<Recorded> events;
  std::set<std::string> changed;
  std::vector<std::function<void(pg::Tx&)>> projections;
  std::vector<std::any> staged;

 private:
  pg::Tx* tx_;
  std::map<std::string, Head> heads_;  // nodes do not move, so a reference from head() stays good
};

}  // namespace

int partition_of(std::string_view stream, int partitions) {
  uint64_t hash = 14695981039346656037ULL;
  for (unsigned char byte : stream) hash = (hash ^ byte) * 1099511628211ULL;
  return static_cast<int>(hash % static_cast<uint64_t>(partitions));
}

std::optional<Error> refuse(const Work& work) {
  CHECK(work.decide != nullptr, "a Work without decide()");
  for (const auto& stream : work.streams)
    CHECK(!stream.empty() && stream.size() <= kMaxStream, "stream name of {} bytes", stream.size());
  CHECK(work.key.empty() || !work.input_hash.empty(), "a key without input_hash");
  if (work.key.size() <= kMaxKey && work.key.find('\0') == std::string::npos) return std::nullopt;
  return Error{Code::kInvalid,
               "IdempotencyKeyInvalid",
               "The idempotency key is too long or holds a zero byte.",
               {},
               {},
               {}};
}

void Batch::add_head(Head head) {
  std::string name = head.stream;
  heads.insert_or_assign(std::move(name), std::move(head));
}

void Batch::add_accepted(const std::string& key, Accepted given) {
  before_.insert_or_assign(key, std::move(given));
}

std::optional<Result<std::string>> Batch::known(const Work& work) const {
  if (work.key.empty()) return std::nullopt;
  const Accepted* found = nullptr;
  if (auto it = before_.find(work.key); it != before_.end()) found = &it->second;
  if (auto it = accepted.find(work.key); it != accepted.end()) found = &it->second;
  if (found == nullptr) return std::nullopt;
  if (found->input_hash == work.input_hash) return found->answer;
  return fail(Code::kConflict, "IdempotencyKeyReused",
              "This idempotency key was used before with another request; use a new key.");
}

bool Batch::has_heads(const Work& work) const {
  return std::ranges::all_of(work.streams, [&](const auto& stream) { return heads.contains(stream); });
}

Result<std::string> Batch::decide(const Work& work) {
  BufferedUnit unit(work, heads, tx_);
  auto answer = work.decide(unit);
  if (!answer) return answer;
  if (tx_ != nullptr)
    for (auto& write : unit.projections) write(*tx_);
  projected |= !unit.projections.empty();
  for (const auto& stream : unit.changed) heads.at(stream) = std::move(unit.own(stream));
  changed.merge(unit.changed);
  events.insert(events.end(), std::make_move_iterator(unit.events.begin()),
                std::make_move_iterator(unit.events.end()));
  staged.insert(staged.end(), std::make_move_iterator(unit.staged.begin()),
                std::make_move_iterator(unit.staged.end()));
  if (!work.key.empty()) accepted[work.key] = {work.input_hash, *answer};
  return answer;
}

}  // namespace nodus::eventlog
