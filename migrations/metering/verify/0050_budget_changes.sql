-- Verify metering:0050_budget_changes
BEGIN;
SELECT position, project, name, type, object, at_us FROM budget_changes WHERE false;
SELECT project, name, position FROM budget_versions WHERE false;
SELECT project, last, floor FROM budget_feeds WHERE false;
ROLLBACK;
