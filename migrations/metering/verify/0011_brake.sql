-- Verify metering:0011_brake
BEGIN;
SELECT id, engaged, reason, author, at_us FROM brake_changes WHERE false;
ROLLBACK;
