-- Revert metering:0010_budgets
BEGIN;
DROP TABLE budget_deadlines;
DROP TABLE project_spend;
DROP INDEX starts_of_project;
CREATE INDEX starts_of_project ON starts (project) WHERE open;
ALTER TABLE starts DROP COLUMN budget_era, DROP COLUMN budgeted;
COMMIT;
