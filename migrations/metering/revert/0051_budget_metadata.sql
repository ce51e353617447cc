-- Revert metering:0051_budget_metadata
BEGIN;
ALTER TABLE budget_changes DROP COLUMN was;
COMMIT;
