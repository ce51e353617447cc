-- Deploy metering:0051_budget_metadata
BEGIN;
-- The Budget before the change, where a label selector may tell the two apart; null: it cannot.
ALTER TABLE budget_changes ADD COLUMN was text;
COMMIT;
