-- Revert metering:0021_ledger
BEGIN;
DROP FUNCTION ledger_verify(bigint, bigint);
DROP FUNCTION ledger_seal(bigint, integer, bigint);
DROP FUNCTION ledger_seal_hash(bytea, bigint, bigint, bigint, bigint, bytea);
DROP FUNCTION ledger_last_certain();
DROP VIEW ledger_canonical;
DROP TABLE ledger_seals;
DROP TABLE ledger_lines;
DROP TABLE ledger_entries;
DROP TABLE credits;
DROP FUNCTION ledger_check_lines();
DROP FUNCTION ledger_before_entries();
DROP FUNCTION ledger_lock(integer, boolean);
COMMIT;
