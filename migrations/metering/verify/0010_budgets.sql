-- Verify metering:0010_budgets
BEGIN;
SELECT budgeted, budget_era FROM starts WHERE false;
SELECT project, org, spent, pending, base, month_s, month_spent, month_pending, held_funded, held_open, rate, funded,
  open, era FROM project_spend WHERE false;
SELECT project, org, due_us FROM budget_deadlines WHERE false;
ROLLBACK;
