-- Deploy lifecycle:0005_environment
BEGIN;
-- What belongs to a Sandbox and is in no event: rows that go with it.

-- The values of spec.env, AES-256-GCM under NODUS_ENV_KEY (services/lifecycle/adapters/environment.hpp).
CREATE TABLE sandbox_env (
  uid    text  COLLATE "C" PRIMARY KEY,
  sealed bytea NOT NULL
);

-- What the machine of a running Sandbox last said of its activity. It moves no deadline.
CREATE TABLE sandbox_usage (
  uid              text    COLLATE "C" PRIMARY KEY,
  epoch            bigint  NOT NULL,
  busy             boolean NOT NULL,
  because          text    NOT NULL,              -- what counts: "process 42 (node)"; empty: nothing
  last_activity_us bigint  NOT NULL
);
COMMIT;
