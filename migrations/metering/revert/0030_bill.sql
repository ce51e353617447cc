-- Revert metering:0030_bill
BEGIN;
DROP FUNCTION open_lines(text, bigint);
DROP TABLE exhaustions, billing_periods, bill_days;
DROP INDEX bill_late, bill_of_org;
ALTER TABLE bill_lines DROP CONSTRAINT bill_lines_reason, DROP CONSTRAINT bill_lines_within_a_day,
  DROP COLUMN late_in, DROP COLUMN reason;
COMMIT;
