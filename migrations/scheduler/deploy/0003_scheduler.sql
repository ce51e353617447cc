BEGIN;
-- Read models and deadlines, written in the transaction that appends the events they follow from.

-- Machines as registered, and what is taken of them. The state itself is on the head row of machine/<id>.
CREATE TABLE machines (
  machine       text   COLLATE "C" PRIMARY KEY,
  org           text   COLLATE "C" NOT NULL,
  runtime       text   NOT NULL,
  data_path     text   NOT NULL,
  incarnation   text   NOT NULL,
  cpu_milli     bigint NOT NULL,
  memory_bytes  bigint NOT NULL,
  disk_bytes    bigint NOT NULL,
  used_cpu_milli    bigint NOT NULL,
  used_memory_bytes bigint NOT NULL,
  used_disk_bytes   bigint NOT NULL,
  -- The version of a machine's desired state is past_changes + the sum of `changes` of its desired slots: it grows
  -- with each commit that changes the list, and two transactions that do so need no common row.
  past_changes  bigint NOT NULL DEFAULT 1,
  seen_us       bigint NOT NULL DEFAULT 0       -- of a recent sync; written now and then
) WITH (fillfactor = 60);

-- What each machine shall run: one row a live slot.
CREATE TABLE desired_slots (
  sandbox_uid text    COLLATE "C" PRIMARY KEY,
  machine     text    COLLATE "C" NOT NULL,
  epoch       bigint  NOT NULL,
  changes     bigint  NOT NULL,                 -- of what is desired, 1 at first
  phase       integer NOT NULL,                 -- of the slot, as the domain numbers them
  desired     bytea   NOT NULL                  -- nodus.node.v1.DesiredSlot
) WITH (fillfactor = 60);
CREATE INDEX desired_slots_of_machine ON desired_slots (machine);

-- Funded starts for which no machine has room, oldest first.
CREATE TABLE waiting_starts (
  sandbox_uid  text   COLLATE "C" PRIMARY KEY,
  start        bigint NOT NULL,
  org          text   COLLATE "C" NOT NULL,
  cpu_milli    bigint NOT NULL,
  memory_bytes bigint NOT NULL,
  disk_bytes   bigint NOT NULL,
  since_us     bigint NOT NULL
);
CREATE INDEX waiting_starts_oldest ON waiting_starts (since_us);

-- Derived from the state: a row disappears by a state change, never by firing.
CREATE TABLE deadlines (
  stream text   COLLATE "C" NOT NULL,
  kind   text   COLLATE "C" NOT NULL,           -- offer
  start  bigint NOT NULL,
  due_us bigint NOT NULL,
  PRIMARY KEY (stream, kind)
);
CREATE INDEX deadlines_due ON deadlines (due_us);
COMMIT;
