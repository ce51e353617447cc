-- Revert metering:0004_paid_until
BEGIN;
ALTER TABLE starts DROP COLUMN paid_until_s;
COMMIT;
