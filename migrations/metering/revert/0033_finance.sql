-- Revert metering:0033_finance
BEGIN;
DROP SCHEMA finance CASCADE;
COMMIT;
