-- Deploy metering:0032_start_facts
BEGIN;
-- What was so when a start was funded: the labels of its Sandbox, its shape and the version of the prices. Kept, so
-- that cost by label is told by the labels of then.
CREATE TABLE start_facts (
  sandbox_uid   text    COLLATE "C" NOT NULL,
  start         bigint  NOT NULL,
  org           text    COLLATE "C" NOT NULL,
  price_version text    NOT NULL,
  labels        jsonb   NOT NULL,
  cpu_milli     bigint  NOT NULL,
  memory_bytes  bigint  NOT NULL,
  disk_bytes    bigint  NOT NULL,
  machine_type  text    NOT NULL,  -- of a machine of its own; empty: shared capacity
  PRIMARY KEY (sandbox_uid, start)
);
COMMIT;
