-- Deploy lifecycle:0010_tenants
BEGIN;
-- Organizations, their projects and keys, what they use, and who did what. Instants are UTC microseconds of the
-- service's clock.

CREATE TABLE organizations (
  org                      text   COLLATE "C" PRIMARY KEY,   -- a DNS label
  display_name             text   NOT NULL DEFAULT '',
  created_us               bigint NOT NULL,
  suspended_us             bigint,                            -- null: in good standing
  suspended_reason         text   NOT NULL DEFAULT '',
  quota_sandboxes          bigint CHECK (quota_sandboxes >= 0),          -- null in these: the platform's default
  quota_cpu_milli          bigint CHECK (quota_cpu_milli >= 0),
  quota_stored_bytes       bigint CHECK (quota_stored_bytes >= 0),
  quota_creates_per_minute bigint CHECK (quota_creates_per_minute >= 0)
);
INSERT INTO organizations (org, created_us)
  SELECT org, (extract(epoch FROM now()) * 1000000)::bigint
  FROM (SELECT org FROM projects UNION SELECT org FROM api_keys) o;

-- A project's id is <organization>/<name>, opaque to all but lifecycle; names are unique within an organization only,
-- so that making one never tells that somebody else has it. (Older ids are the bare name.)
ALTER TABLE projects RENAME COLUMN project TO id;
ALTER TABLE projects ADD COLUMN name text COLLATE "C", ADD COLUMN created_us bigint NOT NULL DEFAULT 0;
UPDATE projects SET name = id;
ALTER TABLE projects ALTER COLUMN name SET NOT NULL, ALTER COLUMN created_us DROP DEFAULT;
ALTER TABLE projects ADD CONSTRAINT projects_by_name UNIQUE (org, name);

-- A key is a name with a role; its secrets are what requests carry. After a rotation two are valid for a while.
ALTER TABLE api_keys
  ADD COLUMN name text COLLATE "C",
  ADD COLUMN project text COLLATE "C" NOT NULL DEFAULT '',     -- name of the only project it may use; '': every one
  ADD COLUMN created_by text COLLATE "C" NOT NULL DEFAULT '',  -- a key's id; '': the operator
  ADD COLUMN created_us bigint NOT NULL DEFAULT 0,
  ADD COLUMN expires_us bigint,
  ADD COLUMN revoked_us bigint;
UPDATE api_keys SET name = 'key-' || left(id, 8), created_us = (extract(epoch FROM created_at) * 1000000)::bigint,
  revoked_us = (extract(epoch FROM revoked_at) * 1000000)::bigint;
ALTER TABLE api_keys ALTER COLUMN name SET NOT NULL, ALTER COLUMN created_us DROP DEFAULT;
CREATE UNIQUE INDEX api_keys_by_name ON api_keys (org, name) WHERE revoked_us IS NULL;

CREATE TABLE api_key_secrets (
  sha256     text   COLLATE "C" PRIMARY KEY,               -- of the whole secret; the secret is shown once and not kept
  key_id     text   COLLATE "C" NOT NULL REFERENCES api_keys (id),
  hint       text   NOT NULL DEFAULT '',                   -- its first characters, to tell one from another
  created_us bigint NOT NULL,
  expires_us bigint                                        -- set when a newer one takes its place
);
CREATE INDEX api_key_secrets_of_key ON api_key_secrets (key_id);
INSERT INTO api_key_secrets (sha256, key_id, created_us) SELECT key_sha256, id, created_us FROM api_keys;
ALTER TABLE api_keys DROP COLUMN key_sha256, DROP COLUMN created_at, DROP COLUMN revoked_at;

-- What an organization uses. Changes are added as rows in the transaction of what they follow from, so that nobody
-- waits for a counter, and are folded into the sum now and then: use = sum + changes.
CREATE TABLE usage_sums (
  org          text   COLLATE "C" PRIMARY KEY,
  sandboxes    bigint NOT NULL,
  cpu_milli    bigint NOT NULL,
  stored_bytes bigint NOT NULL
);
CREATE TABLE usage_changes (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  org          text   COLLATE "C" NOT NULL,
  sandboxes    bigint NOT NULL,
  cpu_milli    bigint NOT NULL,
  stored_bytes bigint NOT NULL
);
CREATE INDEX usage_changes_of_org ON usage_changes (org) INCLUDE (sandboxes, cpu_milli, stored_bytes);
INSERT INTO usage_sums SELECT org, count(*), 0, 0 FROM sandboxes GROUP BY org;
CREATE INDEX sandboxes_of_org ON sandboxes (org) WHERE released_at_us IS NULL;

-- Who did what. Rows are added and read, never changed.
CREATE TABLE audit (
  org     text    COLLATE "C" NOT NULL,
  at_us   bigint  NOT NULL,                -- when the request came
  id      text    COLLATE "C" NOT NULL,
  key_id  text    COLLATE "C" NOT NULL,
  key_name text   COLLATE "C" NOT NULL,
  role    text    COLLATE "C" NOT NULL,
  project text    COLLATE "C" NOT NULL,    -- its name; '' outside of a project
  method  text    COLLATE "C" NOT NULL,
  route   text    COLLATE "C" NOT NULL,    -- resource.verb, e.g. sandboxes.create
  object  text    COLLATE "C" NOT NULL,
  status  integer NOT NULL,                -- HTTP; 0: under way (a stream), or the client left before the answer
  reason  text    COLLATE "C" NOT NULL,    -- of a refusal
  peer    text    NOT NULL,                -- source address
  PRIMARY KEY (org, at_us, id)
);
CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE 'rows of the audit log are never changed';
END $$;
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
  FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only();
REVOKE UPDATE, DELETE, TRUNCATE ON audit FROM CURRENT_USER;
COMMIT;
