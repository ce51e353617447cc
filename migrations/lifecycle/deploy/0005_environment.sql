-- Deploy lifecycle:0005_environment
BEGIN;
-- What belongs to a Sandbox and is in no event: rows that go with it.

-- The values of spec.env, AES-256-GCM under NODUS_ENV_KEY (services/lifecycle/adapters/environment.hpp).
CREATE TABLE sandbox_env (
  uid    text  COLLATE "C" PRIMARY KEY,
  sealed bytea NOT NULL
);
COMMIT;
