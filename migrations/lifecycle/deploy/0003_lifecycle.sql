-- Deploy lifecycle:0003_lifecycle
BEGIN;
-- Read models, deadlines, organizations and keys. Written in the transaction that appends the events they follow from.

-- Live Sandboxes. The state itself is on the head row of sandbox/<uid>.
CREATE TABLE sandboxes (
  uid            text   COLLATE "C" PRIMARY KEY,
  org            text   COLLATE "C" NOT NULL,
  project        text   COLLATE "C" NOT NULL,
  name           text   COLLATE "C" NOT NULL,
  epoch          bigint NOT NULL DEFAULT 0,      -- of the latest slot
  released_at_us bigint,                         -- when the latest start ended; null: one is under way
  UNIQUE (project, name)
);

-- Processes of live Sandboxes, and open ones of deleted Sandboxes until they are ended. The state itself
-- is on the head row of process/<uid>.
CREATE TABLE processes (
  uid         text    COLLATE "C" PRIMARY KEY,
  sandbox_uid text    COLLATE "C" NOT NULL,
  project     text    COLLATE "C" NOT NULL,
  name        text    COLLATE "C" NOT NULL,      -- sb-hello-12
  epoch       bigint  NOT NULL,
  admitted_us bigint  NOT NULL,
  expires_us  bigint  NOT NULL,                  -- when its timeout has passed for sure
  ended       boolean NOT NULL DEFAULT false
);
CREATE INDEX processes_by_name ON processes (project, name);
CREATE INDEX processes_of_sandbox ON processes (sandbox_uid, admitted_us);
CREATE INDEX processes_open ON processes (sandbox_uid) WHERE NOT ended;

-- Derived from the state: a row disappears by a state change, never by firing.
CREATE TABLE deadlines (
  stream text   COLLATE "C" NOT NULL,
  kind   text   COLLATE "C" NOT NULL,
  due_us bigint NOT NULL,
  PRIMARY KEY (stream, kind)
);
CREATE INDEX deadlines_due ON deadlines (due_us);

-- When an organization's funds last changed, by metering's clock: refusals from before no longer stand.
CREATE TABLE funds (
  org        text   COLLATE "C" PRIMARY KEY,
  changed_us bigint NOT NULL
);

CREATE TABLE projects (
  project text COLLATE "C" PRIMARY KEY,          -- unique within the platform
  org     text COLLATE "C" NOT NULL
);

CREATE TABLE api_keys (
  id         text        COLLATE "C" PRIMARY KEY,
  key_sha256 text        COLLATE "C" NOT NULL UNIQUE,  -- of the whole key; the key itself is shown once and not kept
  org        text        COLLATE "C" NOT NULL,
  role       text        NOT NULL CHECK (role IN ('viewer', 'developer', 'billing', 'admin')),
  created_at timestamptz NOT NULL DEFAULT now(),
  revoked_at timestamptz
);
COMMIT;
