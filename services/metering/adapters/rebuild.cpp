#include "services/metering/adapters/rebuild.hpp"

#include "libs/pg/arrays.hpp"
#include "services/metering/adapters/postgres/rows.hpp"
#include "services/metering/app/streams.hpp"
#include "services/metering/domain/ledger.hpp"

namespace nodus::metering {

namespace {

constexpr int kPage = 500;

void fault(Check& check, const std::string& example) {
  ++check.faults;
  if (check.example.empty()) check.example = example;
}

struct Posted {  // as the log has it
  LedgerEntry entry;
  std::string stream;
  int64_t version = 0;
};

std::string lines_of(const LedgerEntry& entry) {
  std::string text;
  int place = 0;
  for (const auto& line : entry.lines) {
    if (place > 0) text += ",";
    text += std::to_string(++place) + ":" + line.account + ":" + line.amount.to_decimal();
  }
  return text;
}

// nullopt: the stream is none that moves money.
Result<std::optional<LedgerEntry>> entry_of(const eventlog::Recorded& recorded) {
  if (recorded.stream.starts_with("charge/")) {
    const auto event = Charges::decode(recorded.type, recorded.payload);
    if (!event) return std::unexpected(event.error());
    return metering::entry_of(*event);
  }
  if (!recorded.stream.starts_with("account/")) return std::nullopt;
  const auto event = Accounts::decode(recorded.type, recorded.payload);
  if (!event) return std::unexpected(event.error());
  return metering::entry_of(*event);
}

// The entries of a page against their rows.
Result<void> compare(pg::Pool& pool, const std::vector<Posted>& posted, Check& ledger, Check& postings) {
  if (posted.empty()) return {};
  std::vector<std::string_view> orgs, kinds, refs;
  for (const auto& p : posted) {
    orgs.push_back(p.entry.org.str());
    kinds.push_back(p.entry.kind);
    refs.push_back(p.entry.ref);
  }
  return pool.with_tx([&](pg::Tx& tx) -> Result<void> {
    const auto rows = tx.exec_params(
        "SELECT e.stream, e.version, e.at_us, (SELECT string_agg(l.ordinal || ':' || l.account || ':' ||"
        " l.amount, ',' ORDER BY l.ordinal) FROM ledger_lines l WHERE l.entry = e.id), p.amount"
        " FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS u (org, kind, ref, place)"
        " LEFT JOIN ledger_entries e ON e.org = u.org AND e.kind = u.kind AND e.ref = u.ref"
        " LEFT JOIN postings p ON p.org = u.org AND p.ref = u.ref AND p.kind ="
        " CASE WHEN u.kind IN ('Charge', 'Storage', 'Expiry') THEN u.kind ELSE 'Credit' END ORDER BY u.place",
        pg::text_array(orgs), pg::text_array(kinds), pg::text_array(refs));
    for (size_t i = 0; i < posted.size(); ++i) {
      const auto& want = posted[i];
      const auto row = rows[static_cast<int>(i)];
      const std::string name = want.entry.kind + " " + want.entry.org.str() + "/" + want.entry.ref;
      if (row[0].is_null()) {
        fault(ledger, name + " is missing");
      } else {
        const bool from_before = row[1].as<int64_t>() == 0;
        const bool same =
            row[0].c_str() == want.stream && (from_before || row[1].as<int64_t>() == want.version);
        if (!same || row[2].as<int64_t>() != to_micros(want.entry.at) ||
            row[3].c_str() != lines_of(want.entry))
          fault(ledger, name + " differs");
      }
      if (row[4].is_null() || money_of(row[4]) != balance_change(want.entry))
        fault(postings, name + " differs");
    }
    return {};
  });
}

Result<void> replay_postings(pg::Pool& pool, eventlog::EventLog& log, Check& ledger, Check& postings) {
  // Counted first: what is posted meanwhile is in the log that is read then.
  const auto counts = pool.with_tx([](pg::Tx& tx) -> Result<std::pair<int64_t, int64_t>> {
    const auto row =
        tx.exec1("SELECT (SELECT count(*) FROM ledger_entries), (SELECT count(*) FROM postings)");
    return std::pair(row[0].as<int64_t>(), row[1].as<int64_t>());
  });
  if (!counts) return std::unexpected(counts.error());
  int64_t expected = 0;
  for (int partition = 0; partition < log.partitions(); ++partition) {
    for (int64_t position = 0;;) {
      const auto page = log.read(partition, position, kPage);
      if (!page) return std::unexpected(page.error());
      if (page->empty()) break;
      std::vector<Posted> posted;
      for (const auto& recorded : *page) {
        position = recorded.position;
        auto entry = entry_of(recorded);
        if (!entry) return std::unexpected(std::move(entry.error()));
        if (*entry) posted.push_back({std::move(**entry), recorded.stream, recorded.version});
      }
      expected += std::ssize(posted);
      if (auto done = compare(pool, posted, ledger, postings); !done) return done;
    }
  }
  if (counts->first > expected)
    fault(ledger, std::to_string(counts->first - expected) + " entries follow from no event");
  if (counts->second > expected)
    fault(postings, std::to_string(counts->second - expected) + " postings follow from no event");
  return {};
}

struct StreamFault {
  std::string what;  // empty: none
  std::string above_cap;
};

void note_charge(const charge::State& state, const charge::Event& event, StreamFault& found) {
  const auto* closed = std::get_if<charge::ChargeClosed>(&event);
  if (closed == nullptr || !state.current || !state.current->max_cost || closed->amount == Money()) return;
  if (closed->sandbox_total > *state.current->max_cost)
    found.above_cap = "start " + std::to_string(closed->slot.start) + ": $" +
                      closed->sandbox_total.to_decimal() + " of $" + state.current->max_cost->to_decimal();
}
void note_charge(const account::State&, const account::Event&, StreamFault&) {}
void note_charge(const budget::State&, const budget::Event&, StreamFault&) {}

template <class Aggregate>
Result<StreamFault> replay(eventlog::EventLog& log, const std::string& stream) {
  const auto head = log.head(stream);
  if (!head) return std::unexpected(head.error());
  typename Aggregate::State state;
  StreamFault found;
  for (int64_t version = 0; version < head->version;) {
    const auto page = log.read_stream(stream, version, kPage);
    if (!page) return std::unexpected(page.error());
    if (page->empty()) return StreamFault{"ends at version " + std::to_string(version), ""};
    for (const auto& recorded : *page) {
      if (recorded.version != version + 1)
        return StreamFault{"misses version " + std::to_string(version + 1), ""};
      if (recorded.version > head->version) break;
      const auto event = Aggregate::decode(recorded.type, recorded.payload);
      if (!event) return StreamFault{event.error().message, ""};
      note_charge(state, *event, found);
      Aggregate::evolve(state, *event);
      version = recorded.version;
    }
  }
  const auto kept = head->version == 0 ? Result<typename Aggregate::State>(typename Aggregate::State())
                                       : Aggregate::decode_state(head->state);
  if (!kept) return StreamFault{kept.error().message, ""};
  if (state != *kept) found.what = "the rebuilt state is another";
  return found;
}

Result<void> replay_heads(pg::Pool& pool, eventlog::EventLog& log, Check& heads, Check& caps) {
  for (std::string after;;) {
    const auto streams = pool.with_tx([&](pg::Tx& tx) -> Result<std::vector<std::string>> {
      std::vector<std::string> names;
      for (const auto& row :
           tx.exec_params("SELECT stream FROM heads WHERE stream > $1 ORDER BY stream LIMIT 500", after))
        names.emplace_back(row[0].c_str());
      return names;
    });
    if (!streams) return std::unexpected(streams.error());
    if (streams->empty()) return {};
    for (const auto& stream : *streams) {
      const auto found = stream.starts_with("charge/")   ? replay<Charges>(log, stream)
                         : stream.starts_with("budget/") ? replay<Budgets>(log, stream)
                                                         : replay<Accounts>(log, stream);
      if (!found) return std::unexpected(found.error());
      if (!found->what.empty()) fault(heads, stream + ": " + found->what);
      if (!found->above_cap.empty()) fault(caps, stream + ": " + found->above_cap);
    }
    after = streams->back();
  }
}

}  // namespace

Result<std::vector<Check>> rebuild_check(pg::Pool& pool, eventlog::EventLog& log) {
  Check heads{"rebuild from events = head rows"};
  Check caps{"no charge above maxCostUSD"};
  Check ledger{"rebuild from events = ledger"};
  Check postings{"rebuild from events = postings"};
  if (auto done = replay_heads(pool, log, heads, caps); !done)
    return std::unexpected(std::move(done.error()));
  if (auto done = replay_postings(pool, log, ledger, postings); !done)
    return std::unexpected(std::move(done.error()));
  return std::vector<Check>{heads, caps, ledger, postings};
}

}  // namespace nodus::metering
