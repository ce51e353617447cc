#include "services/metering/adapters/postgres/ledger.hpp"

#include "libs/pg/arrays.hpp"
#include "libs/telemetry/failpoint.hpp"

namespace nodus::metering {

namespace {

constexpr int kEntriesOfASeal = 1'000;
constexpr int kSealsAtOnce = 50;  // so that no transaction is long
constexpr size_t kMaxFaults = 1'000;

struct Column {
  std::vector<std::string> values;
  pqxx::binarystring array() const {
    return pg::text_array(std::vector<std::string_view>(values.begin(), values.end()));
  }
};

}  // namespace

void write_ledger(pg::Tx& tx, const std::vector<std::any>& staged) {
  Column org, kind, ref, stream, at, line_stream, account, amount;
  std::vector<int64_t> version, line_version;
  std::vector<int32_t> ordinal;
  for (const auto& any : staged) {
    const auto* note = std::any_cast<LedgerNote>(&any);
    if (note == nullptr) continue;
    org.values.push_back(note->entry.org.str());
    kind.values.push_back(note->entry.kind);
    ref.values.push_back(note->entry.ref);
    stream.values.push_back(note->stream);
    version.push_back(note->version);
    at.values.push_back(std::to_string(to_micros(note->entry.at)));
    int32_t place = 0;
    for (const auto& line : note->entry.lines) {
      line_stream.values.push_back(note->stream);
      line_version.push_back(note->version);
      ordinal.push_back(++place);
      account.values.push_back(line.account);
      amount.values.push_back(line.amount.to_decimal());
    }
  }
  if (version.empty()) return;
  (void)failpoint("metering.before_ledger");
  tx.conn().prepare(
      "ledger_entries",
      "WITH e AS (INSERT INTO ledger_entries (org, kind, ref, stream, version, at_us)"
      " SELECT org, kind, ref, stream, version, at_us::bigint FROM unnest($1::text[], $2::text[], $3::text[],"
      " $4::text[], $5::bigint[], $6::text[]) AS u (org, kind, ref, stream, version, at_us)"
      " RETURNING id, stream, version)"
      " INSERT INTO ledger_lines (entry, ordinal, account, amount)"
      " SELECT e.id, l.ordinal, l.account, l.amount::numeric FROM e JOIN unnest($7::text[], $8::bigint[],"
      " $9::integer[], $10::text[], $11::text[]) AS l (stream, version, ordinal, account, amount)"
      " ON l.stream = e.stream AND l.version = e.version");
  tx.exec_prepared("ledger_entries", org.array(), kind.array(), ref.array(), stream.array(),
                   pg::int8_array(version), at.array(), line_stream.array(), pg::int8_array(line_version),
                   pg::int4_array(ordinal), account.array(), amount.array());
  (void)failpoint("metering.after_ledger");
}

Result<Sealed> seal_ledger(pg::Pool& pool, Instant now) {
  const auto up_to = pool.with_tx([&](pg::Tx& tx) -> Result<int64_t> {
    return tx.exec1("SELECT ledger_last_certain()")[0].as<int64_t>();
  });
  if (!up_to) return std::unexpected(up_to.error());
  (void)failpoint("metering.seal");
  Sealed sealed;
  for (bool more = true; more;) {
    auto part = pool.with_tx([&](pg::Tx& tx) -> Result<Sealed> {
      Sealed added;
      for (more = false; added.seals < kSealsAtOnce; ++added.seals) {
        const auto entries =
            tx.exec_params1("SELECT ledger_seal($1, $2, $3)", *up_to, kEntriesOfASeal, to_micros(now))[0]
                .as<int64_t>();
        if (entries == 0) break;
        added.entries += entries;
      }
      more = added.seals == kSealsAtOnce;
      const auto head = tx.exec("SELECT encode(hash, 'hex') FROM ledger_seals ORDER BY n DESC LIMIT 1");
      if (!head.empty()) added.head = head[0][0].c_str();
      return added;
    });
    if (!part) return part;
    sealed = {sealed.entries + part->entries, sealed.seals + part->seals, part->head};
  }
  return sealed;
}

Result<std::optional<Instant>> last_sealed(pg::Pool& pool) {
  return pool.with_tx([](pg::Tx& tx) -> Result<std::optional<Instant>> {
    const auto rows = tx.exec("SELECT sealed_us FROM ledger_seals ORDER BY n DESC LIMIT 1");
    if (rows.empty()) return std::nullopt;
    return from_micros(rows[0][0].as<int64_t>());
  });
}

std::string to_string(const SealFault& fault) {
  const std::string seal = "seal " + std::to_string(fault.seal);
  if (!fault.entry) return seal + ": " + fault.what;
  return seal + ", entry " + std::to_string(*fault.entry) + ": " + fault.what;
}

Result<Verdict> verify_ledger(pg::Pool& pool, const std::string& expected) {
  auto verdict = pool.with_tx([&](pg::Tx& tx) -> Result<Verdict> {
    Verdict v;
    const auto row = tx.exec_params1(
        "SELECT coalesce(max(n), 0), (SELECT count(*) FROM ledger_entries WHERE id >"
        " coalesce((SELECT max(to_entry) FROM ledger_seals), 0)),"
        " coalesce((SELECT encode(hash, 'hex') FROM ledger_seals ORDER BY n DESC LIMIT 1), ''),"
        " $1 = '' OR EXISTS (SELECT FROM ledger_seals WHERE encode(hash, 'hex') = lower($1))"
        " FROM ledger_seals",
        expected);
    v.seals = row[0].as<int64_t>();
    v.unsealed = row[1].as<int64_t>();
    v.head = row[2].c_str();
    v.expected_found = row[3].as<bool>();
    return v;
  });
  if (!verdict) return verdict;
  for (int64_t from = 1; from <= verdict->seals; from += kSealsAtOnce) {
    const auto page = pool.with_tx([&](pg::Tx& tx) -> Result<void> {
      for (const auto& row : tx.exec_params("SELECT seal, entry, fault FROM ledger_verify($1, $2)"
                                            " ORDER BY seal, entry NULLS FIRST",
                                            from, from + kSealsAtOnce - 1)) {
        SealFault fault{row[0].as<int64_t>(), std::nullopt, row[2].c_str()};
        if (!row[1].is_null()) fault.entry = row[1].as<int64_t>();
        if (verdict->faults.size() < kMaxFaults) verdict->faults.push_back(std::move(fault));
      }
      return {};
    });
    if (!page) return std::unexpected(page.error());
  }
  return verdict;
}

}  // namespace nodus::metering
