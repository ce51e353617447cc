-- Deploy metering:0010_budgets
BEGIN;
-- Which starts are counted on their project's spend, and in which of its eras their lines were opened.
ALTER TABLE starts ADD COLUMN budgeted boolean NOT NULL DEFAULT false, ADD COLUMN budget_era bigint NOT NULL DEFAULT 0;
DROP INDEX starts_of_project;
CREATE INDEX starts_of_project ON starts (project, sandbox_uid) WHERE open;

-- One row a project: the sums on the head row of budget/<project>, for people and for audits.
CREATE TABLE project_spend (
  project       text           COLLATE "C" PRIMARY KEY,
  org           text           COLLATE "C" NOT NULL,
  spent         numeric(38,12) NOT NULL,
  pending       numeric(38,12) NOT NULL,
  base          numeric(38,12) NOT NULL,
  month_s       bigint         NOT NULL,  -- where the month begins that month_* count
  month_spent   numeric(38,12) NOT NULL,
  month_pending numeric(38,12) NOT NULL,
  held_funded   numeric(38,12) NOT NULL,
  held_open     numeric(38,12) NOT NULL,
  rate          numeric(38,12) NOT NULL,
  funded        bigint         NOT NULL,
  open          bigint         NOT NULL,
  era           bigint         NOT NULL
) WITH (fillfactor = 60);

-- When a project must be looked at next: a Budget's end, a threshold, a new month. Derived from the state.
CREATE TABLE budget_deadlines (
  project text   COLLATE "C" PRIMARY KEY,
  org     text   COLLATE "C" NOT NULL,
  due_us  bigint NOT NULL
) WITH (fillfactor = 60);
CREATE INDEX budget_deadlines_due ON budget_deadlines (due_us);
COMMIT;
