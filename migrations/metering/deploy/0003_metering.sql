-- Deploy metering:0003_metering
BEGIN;
-- The price book, postings, and read models. Written in the transaction that appends the events they follow from.
-- Amounts are USD, rates USD per second; *_s are money seconds (whole UTC seconds since 1970), *_us UTC microseconds.

-- Published versions are immutable: nothing updates or deletes them.
CREATE TABLE prices (
  version          text           COLLATE "C" PRIMARY KEY,
  effective_us     bigint         NOT NULL UNIQUE,
  cpu_per_vcpu_s   numeric(38,12) NOT NULL CHECK (cpu_per_vcpu_s >= 0),
  memory_per_gib_s numeric(38,12) NOT NULL CHECK (memory_per_gib_s >= 0),
  disk_per_gib_s   numeric(38,12) NOT NULL CHECK (disk_per_gib_s >= 0),
  published_us     bigint         NOT NULL
);
-- Credits (+) and charges (−). A credit's ref is its id, kept for ever; a charge's is <sandbox uid>/<start>.
CREATE TABLE postings (
  org    text           COLLATE "C" NOT NULL,
  kind   text           COLLATE "C" NOT NULL CHECK (kind IN ('Credit', 'Charge')),
  ref    text           COLLATE "C" NOT NULL,
  amount numeric(38,12) NOT NULL,
  at_us  bigint         NOT NULL,
  PRIMARY KEY (org, kind, ref)
);

CREATE TABLE bill_lines (
  sandbox_uid  text           COLLATE "C" NOT NULL,
  start        bigint         NOT NULL,
  ordinal      integer        NOT NULL,  -- within the start
  org          text           COLLATE "C" NOT NULL,
  project      text           COLLATE "C" NOT NULL,
  sandbox_name text           COLLATE "C" NOT NULL,
  kind         text           NOT NULL CHECK (kind IN ('Starting', 'Running', 'Stopping')),
  from_s       bigint         NOT NULL,
  to_s         bigint         NOT NULL CHECK (to_s > from_s),
  rate         numeric(38,12) NOT NULL,
  amount       numeric(38,12) NOT NULL,
  waived       boolean        NOT NULL,
  PRIMARY KEY (sandbox_uid, start, ordinal),
  CHECK (amount = CASE WHEN waived THEN 0 ELSE rate * (to_s - from_s) END)
);
CREATE INDEX bill_of_project ON bill_lines (project, from_s, sandbox_uid, start, ordinal);

-- Starts that are funded or open; the state itself is on the head row of charge/<uid>.
CREATE TABLE starts (
  sandbox_uid  text           COLLATE "C" PRIMARY KEY,
  start        bigint         NOT NULL,
  org          text           COLLATE "C" NOT NULL,
  project      text           COLLATE "C" NOT NULL,
  sandbox_name text           COLLATE "C" NOT NULL,
  open         boolean        NOT NULL,
  rate         numeric(38,12) NOT NULL,
  hold         numeric(38,12) NOT NULL,
  started_us   bigint,
  stopping_us  bigint,
  from_s       bigint         NOT NULL,
  cap_s        bigint,                      -- where maxCostUSD is used up
  cap_due_s    bigint,                      -- the same until it was judged
  era          bigint         NOT NULL,     -- of the account, when it was opened
  capped       boolean        NOT NULL,
  stop_ordered boolean        NOT NULL
);
CREATE INDEX starts_of_org ON starts (org, sandbox_uid) WHERE open;
CREATE INDEX starts_of_project ON starts (project) WHERE open;
CREATE INDEX starts_cap_due ON starts (cap_due_s) WHERE cap_due_s IS NOT NULL;

-- One row an organization: the sums on the head row of account/<org>, for people and for audits.
CREATE TABLE accounts (
  org         text           COLLATE "C" PRIMARY KEY,
  credits     numeric(38,12) NOT NULL,
  charged     numeric(38,12) NOT NULL,
  pending     numeric(38,12) NOT NULL,
  held_funded numeric(38,12) NOT NULL,
  held_open   numeric(38,12) NOT NULL,
  rate        numeric(38,12) NOT NULL,
  base        numeric(38,12) NOT NULL,
  funded      bigint         NOT NULL,
  open        bigint         NOT NULL,
  era         bigint         NOT NULL
) WITH (fillfactor = 60);

-- The instant at which an account must be looked at next: stops to order, or its end. Derived from the state.
CREATE TABLE balance_deadlines (
  org     text   COLLATE "C" PRIMARY KEY,
  due_us  bigint NOT NULL
) WITH (fillfactor = 60);
CREATE INDEX balance_deadlines_due ON balance_deadlines (due_us);
COMMIT;
