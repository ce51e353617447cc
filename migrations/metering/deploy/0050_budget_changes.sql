-- Deploy metering:0050_budget_changes
BEGIN;
-- What changed of the Budgets of a project, for those who watch: a row each visible change, in the transaction that
-- makes it. A project's rows are written by whoever holds its head row, so their positions grow in commit order.
-- 1 is the position before every change.
CREATE TABLE budget_changes (
  position bigint GENERATED ALWAYS AS IDENTITY (START WITH 2) PRIMARY KEY,
  project  text   COLLATE "C" NOT NULL,
  name     text   COLLATE "C" NOT NULL,
  type     text   NOT NULL CHECK (type IN ('ADDED', 'MODIFIED', 'DELETED')),
  object   text   NOT NULL,  -- JSON, as it was then, without its resourceVersion: that is the position
  at_us    bigint NOT NULL
);
CREATE INDEX budget_changes_of_project ON budget_changes (project, position);

-- resourceVersion of each Budget there is: the position of its latest change.
CREATE TABLE budget_versions (
  project  text   COLLATE "C" NOT NULL,
  name     text   COLLATE "C" NOT NULL,
  position bigint NOT NULL,
  PRIMARY KEY (project, name)
);

-- The position of a project's latest change, and up to where its changes are not kept any more.
CREATE TABLE budget_feeds (
  project text   COLLATE "C" PRIMARY KEY,
  last    bigint NOT NULL,
  floor   bigint NOT NULL DEFAULT 1
);
COMMIT;
