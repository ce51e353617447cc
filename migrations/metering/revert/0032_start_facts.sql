-- Revert metering:0032_start_facts
BEGIN;
DROP TABLE start_facts;
COMMIT;
