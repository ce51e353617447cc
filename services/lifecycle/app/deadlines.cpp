#include "services/lifecycle/app/deadlines.hpp"

#include <fmt/core.h>

#include <charconv>
#include <map>

#include "libs/base/random.hpp"
#include "libs/pg/arrays.hpp"
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"
#include "services/lifecycle/app/works.hpp"

namespace nodus::lifecycle {

namespace {

constexpr int kBlocks = 500;              // of the table a statement, when everything is read
constexpr int kNearLimit = 5'000;         // rows, when the next second is
constexpr size_t kChangedAtOnce = 2'000;  // streams read again by one statement
constexpr size_t kChangedLimit = 100'000;
constexpr int kMostDeciding = 1'024;  // of the Batcher's 4,096 places: the API keeps the rest
constexpr Millis kGather{25};         // many commits, one look
constexpr Millis kSoon{5};
constexpr std::string_view kPrefix = "sandbox/";

struct Kind {
  std::string_view name;
  SandboxCommand command;
};

// In the order in which what is due is decided: maxLifetime is the backstop.
const std::vector<Kind>& kinds() {
  static_assert(deadlines::Wheel::kKinds >= kDeadlineKinds.size());
  static const std::vector<Kind> kAll = [] {
    std::vector<Kind> all;
    for (const auto name : kDeadlineKinds) all.push_back({name, command_of_deadline(name).value()});
    return all;
  }();
  return kAll;
}

std::optional<uint8_t> kind_of(std::string_view name) {
  for (size_t i = 0; i < kinds().size(); ++i)
    if (kinds()[i].name == name) return static_cast<uint8_t>(i);
  return std::nullopt;
}

// 8-4-4-4-12 hex digits.
bool parse_uuid(std::string_view text, uint64_t& high, uint64_t& low) {
  if (text.size() != 36) return false;
  uint64_t words[2] = {0, 0};
  int digits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (c != '-') return false;
      continue;
    }
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return false;
    uint64_t& word = words[digits++ / 16];
    word = word << 4 | static_cast<uint64_t>(digit);
  }
  high = words[0];
  low = words[1];
  return true;
}

std::string uuid_text(uint64_t high, uint64_t low) {
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, high >> 16 & 0xFFFF, high & 0xFFFF,
                     low >> 48, low & 0xFFFF'FFFF'FFFF);
}

metrics::Histogram lateness() {
  static const auto histogram =
      metrics::histogram("nodus_lifecycle_deadline_lateness_seconds", "How late a deadline was decided",
                         {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60, 300});
  return histogram;
}

metrics::Counter failures() {
  static const auto counter = metrics::counter("nodus_lifecycle_deadline_failures_total",
                                               "Deadlines that could not be decided when they were due");
  return counter;
}

}  // namespace

Deadlines::Deadlines(eventlog::Batcher& batcher, pg::Pool& pool, const Clock& clock, DeadlineOptions options)
    : batcher_(batcher),
      pool_(pool),
      clock_(clock),
      options_(options),
      wheel_(clock.now()),
      filled_(clock.boot()),
      looked_(clock.boot()),
      fire_loop_([this] { return fire(); }),
      read_loop_([this] { return read(); }, kGather) {
  armed_gauge_ = metrics::gauge_callback("nodus_lifecycle_deadlines_armed", "Deadlines in the wheel", [this] {
    std::lock_guard lock(mutex_);
    return static_cast<double>(wheel_.size());
  });
}

Deadlines::~Deadlines() {
  stop();
}

void Deadlines::start() {
  read_loop_.start();
  fire_loop_.start();
}

void Deadlines::stop() {
  fire_loop_.stop();
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return deciding_ == 0; });
  lock.unlock();
  read_loop_.stop();
}

void Deadlines::changed(const std::vector<eventlog::Recorded>& events) {
  bool any = false;
  {
    std::lock_guard lock(mutex_);
    for (const auto& event : events)
      if (const auto key = key_of(event.stream)) any = changed_.insert({key->high, key->low}).second || any;
    if (changed_.size() > kChangedLimit) {
      changed_.clear();
      loaded_ = false;
    }
  }
  if (any) read_loop_.nudge();
}

std::optional<Deadlines::Key> Deadlines::key_of(const std::string& stream) {
  Key key;
  if (!stream.starts_with(kPrefix)) return std::nullopt;
  if (!parse_uuid(std::string_view(stream).substr(kPrefix.size()), key.high, key.low)) return std::nullopt;
  return key;
}

// stream, kind, due_us. A row of a kind that this release does not know stays for one that does.
std::vector<Deadlines::Armed> Deadlines::rows_of(const pqxx::result& rows) {
  std::vector<Armed> out;
  out.reserve(rows.size());
  for (const auto& row : rows) {
    auto key = key_of(row[0].c_str());
    const auto kind = kind_of(row[1].c_str());
    if (!key || !kind) continue;
    key->kind = *kind;
    out.push_back({*key, from_micros(row[2].as<int64_t>())});
  }
  return out;
}

// ---- the firing thread

size_t Deadlines::allowance() {
  const Micros now = clock_.boot();
  const double a_tenth = options_.rate_per_s / 10.0;
  tokens_ =
      std::min(a_tenth, tokens_ + std::chrono::duration<double>(now - filled_).count() * options_.rate_per_s);
  filled_ = now;
  return static_cast<size_t>(tokens_);
}

Millis Deadlines::fire() {
  std::vector<Armed> due;
  Millis pause = options_.poll;
  const Instant now = clock_.now();
  {
    std::lock_guard lock(mutex_);
    if (!loaded_) return pause;  // what is due is taken by kind, so all of it must be here; the reader nudges
    wheel_.advance(now);
    due = wheel_.take(std::min(allowance(), static_cast<size_t>(kMostDeciding - deciding_)));
    for (auto& armed : due) {
      auto [it, fresh] = fired_.try_emplace(armed.key, Fired{armed.due});
      it->second.deciding = true;
      if (!fresh) armed.due = it->second.due;  // a second try: late since then
    }
    deciding_ += static_cast<int>(due.size());
    if (wheel_.ready()) {
      pause = kSoon;
    } else if (const auto next = wheel_.next()) {
      pause = std::clamp(std::chrono::ceil<Millis>(*next - now), Millis(1), options_.poll);
    }
  }
  tokens_ -= static_cast<double>(due.size());
  for (const auto& armed : due) {
    const SandboxUid uid(uuid_text(armed.key.high, armed.key.low));
    batcher_.submit(
        change_sandbox(uid, kinds()[armed.key.kind].command, SandboxContext{clock_.now(), std::nullopt}),
        [this, armed](const Result<std::string>& answer) { decided(armed, answer); });
  }
  return pause;
}

// On a thread of the Batcher.
void Deadlines::decided(const Armed& fired, const Result<std::string>& answer) {
  if (answer || answer.error().code == Code::kNotFound) {
    lateness().observe(std::chrono::duration<double>(clock_.now() - fired.due).count());
  } else {
    failures().add();
    log::warn("deadline.failed",
              {{"sandbox", uuid_text(fired.key.high, fired.key.low)}, {"reason", answer.error().reason}});
  }
  std::lock_guard lock(mutex_);
  if (const auto it = fired_.find(fired.key); it != fired_.end()) it->second.deciding = false;
  changed_.insert({fired.key.high, fired.key.low});  // its row says what comes next
  read_loop_.nudge();
  if (--deciding_ == 0) idle_.notify_all();
}

// ---- the reading thread

Millis Deadlines::read() {
  bool loaded;
  {
    std::lock_guard lock(mutex_);
    loaded = loaded_;
  }
  auto done = loaded ? Result<void>() : load();
  if (done) done = read_changed();
  if (done && clock_.boot() - looked_ >= options_.poll) {
    done = read_near();
    looked_ = clock_.boot();
  }
  if (!done) {
    log::warn("deadlines.unread", {{"reason", done.error().reason}});
    return options_.poll;
  }
  fire_loop_.nudge();
  std::lock_guard lock(mutex_);
  return changed_.empty() ? options_.poll : Millis(0);
}

// By the blocks of the table, the way a disk is read. A row that moves to a block that was read already
// belongs to a stream that changed, or is found when it is near.
Result<void> Deadlines::load() {
  for (int64_t block = 0;; block += kBlocks) {
    int64_t blocks = 0;
    auto page = pool_.with_tx([&](pg::Tx& tx) -> Result<pqxx::result> {
      blocks = tx.exec1("SELECT pg_relation_size('deadlines') / current_setting('block_size')::bigint")[0]
                   .as<int64_t>();
      return tx.exec_params(
          "SELECT stream, kind, due_us FROM deadlines WHERE ctid >= $1::text::tid AND ctid < $2::text::tid",
          fmt::format("({},0)", block), fmt::format("({},0)", block + kBlocks));
    });
    if (!page) return std::unexpected(std::move(page.error()));
    const auto rows = rows_of(*page);
    std::lock_guard lock(mutex_);
    for (const auto& row : rows) keep(row);
    if (block + kBlocks < blocks) continue;
    loaded_ = true;
    return {};
  }
}

Result<void> Deadlines::read_changed() {
  std::vector<Name> names;
  {
    std::lock_guard lock(mutex_);
    while (!changed_.empty() && names.size() < kChangedAtOnce)
      names.push_back(changed_.extract(changed_.begin()).value());
  }
  if (names.empty()) return {};
  std::vector<std::string> streams;
  for (const auto& name : names) streams.push_back(std::string(kPrefix) + uuid_text(name.high, name.low));
  const std::vector<std::string_view> views(streams.begin(), streams.end());
  auto read = pool_.with_tx([&](pg::Tx& tx) -> Result<pqxx::result> {
    return tx.exec_params("SELECT stream, kind, due_us FROM deadlines WHERE stream = ANY($1::text[])",
                          pg::text_array(views));
  });
  std::lock_guard lock(mutex_);
  if (!read) {
    changed_.insert(names.begin(), names.end());
    return std::unexpected(std::move(read.error()));
  }
  std::map<std::tuple<uint64_t, uint64_t, uint8_t>, Armed> found;
  for (const auto& row : rows_of(*read)) found.insert({{row.key.high, row.key.low, row.key.kind}, row});
  for (const auto& name : names)
    for (uint8_t kind = 0; kind < kinds().size(); ++kind) {
      const auto row = found.find({name.high, name.low, kind});
      if (row != found.end()) {
        keep(row->second);
        continue;
      }
      const Key key{name.high, name.low, kind};
      const auto fired = fired_.find(key);
      if (fired != fired_.end() && fired->second.deciding) continue;  // read again when it is decided
      if (fired != fired_.end()) fired_.erase(fired);
      wheel_.cancel(key);
    }
  return {};
}

Result<void> Deadlines::read_near() {
  auto near = pool_.with_tx([&](pg::Tx& tx) -> Result<pqxx::result> {
    return tx.exec_params(
        "SELECT stream, kind, due_us FROM deadlines WHERE due_us <= $1 ORDER BY due_us LIMIT $2",
        to_micros(clock_.now() + Seconds(1) + options_.poll), kNearLimit);
  });
  if (!near) return std::unexpected(std::move(near.error()));
  std::lock_guard lock(mutex_);
  for (const auto& row : rows_of(*near)) keep(row);
  return {};
}

void Deadlines::keep(const Armed& row) {
  const auto fired = fired_.find(row.key);
  if (fired == fired_.end()) return wheel_.arm(row.key, row.due);
  if (fired->second.deciding) return;
  if (fired->second.due != row.due) {
    fired_.erase(fired);
    return wheel_.arm(row.key, row.due);
  }
  // Fired, and the row stands as it was: it could not be decided. Spread, so that not all return at once.
  if (!wheel_.due_of(row.key))
    wheel_.arm(row.key, clock_.now() + Seconds(1) + Millis(static_cast<int64_t>(random_below(500))));
}

}  // namespace nodus::lifecycle
