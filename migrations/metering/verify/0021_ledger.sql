-- Verify metering:0021_ledger
BEGIN;
SELECT org, id, kind, amount, uncovered, priority, expires_s, author, at_us FROM credits WHERE false;
SELECT id, org, kind, ref, stream, version, at_us FROM ledger_entries WHERE false;
SELECT entry, ordinal, account, amount FROM ledger_lines WHERE false;
SELECT n, from_entry, to_entry, entries, digests, previous, hash, sealed_us FROM ledger_seals WHERE false;
SELECT id, line FROM ledger_canonical WHERE false;
SELECT seal, entry, fault FROM ledger_verify(1, 1);
ROLLBACK;
