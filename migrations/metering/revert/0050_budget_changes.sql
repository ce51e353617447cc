-- Revert metering:0050_budget_changes
BEGIN;
DROP TABLE budget_feeds, budget_versions, budget_changes;
COMMIT;
