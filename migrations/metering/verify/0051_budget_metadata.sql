-- Verify metering:0051_budget_metadata
BEGIN;
SELECT was FROM budget_changes WHERE false;
ROLLBACK;
