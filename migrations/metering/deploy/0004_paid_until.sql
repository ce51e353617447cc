-- Deploy metering:0004_paid_until
BEGIN;
-- The second from which an open start is waived because the balance ended, once its stream says so.
ALTER TABLE starts ADD COLUMN paid_until_s bigint;
COMMIT;
