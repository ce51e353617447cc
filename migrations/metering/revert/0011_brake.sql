-- Revert metering:0011_brake
BEGIN;
DROP TABLE brake_changes;
COMMIT;
