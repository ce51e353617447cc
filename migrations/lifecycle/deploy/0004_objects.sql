-- Deploy lifecycle:0004_objects
BEGIN;
-- What an API object has besides its state, and every visible change of an object in one order.

ALTER TABLE sandboxes
  ADD COLUMN phase  text COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN labels jsonb NOT NULL DEFAULT '{}';
CREATE INDEX sandboxes_by_phase ON sandboxes (project, phase, name);
CREATE INDEX sandboxes_by_label ON sandboxes USING gin (labels);
ALTER TABLE processes ADD COLUMN resource_version bigint NOT NULL DEFAULT 0;
CREATE INDEX processes_of_project ON processes (project, admitted_us, uid);

-- A Sandbox as it was last told to watchers. Written under the lock of changes_begin only, also when a Process
-- ends: a row of sandboxes is not, since another transaction may hold it and wait for that lock.
CREATE TABLE sandbox_told (
  uid              text   COLLATE "C" PRIMARY KEY,
  resource_version bigint  NOT NULL,                           -- position of its latest change
  generation       bigint  NOT NULL,                           -- changes of spec, from 1
  busy             boolean NOT NULL
);

-- Positions are 2, 3, 4 … in commit order (taken under the lock of changes_begin), so that a watch's cursor is one
-- number. Old rows are deleted up to the floor; the last one stays, so that positions never go back.
CREATE TABLE changes (
  position bigint PRIMARY KEY,
  project  text   COLLATE "C" NOT NULL,
  resource text   COLLATE "C" NOT NULL,                        -- sandboxes | processes | events
  type     text   COLLATE "C" NOT NULL,                        -- ADDED | MODIFIED | DELETED
  at_us    bigint NOT NULL,
  object   text   NOT NULL,                                    -- JSON, as it was then
  was      text   NOT NULL                                     -- what selectors ask for, before; empty for ADDED
);
CREATE INDEX changes_of_project ON changes (project, resource, position);
CREATE TABLE changes_floor (
  position bigint  NOT NULL DEFAULT 1,                         -- changes up to here may be gone
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row)
);
INSERT INTO changes_floor DEFAULT VALUES;

-- Events, as people read them; equal ones are counted.
CREATE TABLE object_events (
  uid              text   COLLATE "C" PRIMARY KEY,
  project          text   COLLATE "C" NOT NULL,
  name             text   COLLATE "C" NOT NULL,
  object_kind      text   COLLATE "C" NOT NULL,
  object_uid       text   COLLATE "C" NOT NULL,
  object_name      text   COLLATE "C" NOT NULL,
  type             text   COLLATE "C" NOT NULL CHECK (type IN ('Normal', 'Warning')),
  reason           text   COLLATE "C" NOT NULL,
  message          text   NOT NULL,
  count            bigint NOT NULL,
  first_us         bigint NOT NULL,
  last_us          bigint NOT NULL,
  resource_version bigint NOT NULL,
  expires_us       bigint,                                     -- null while the object lives
  UNIQUE (project, name)
);
CREATE UNIQUE INDEX object_events_equal ON object_events (object_uid, type, reason, md5(message));
CREATE INDEX object_events_of_object ON object_events (object_uid, last_us);
CREATE INDEX object_events_expiring ON object_events (expires_us) WHERE expires_us IS NOT NULL;

-- Takes the order of all writers, then answers the last position (in the row without uid) and what is known of
-- the Sandboxes named: state is null for one that is gone. Reads come after the lock, each with a snapshot of its
-- own.
CREATE FUNCTION changes_begin(uids text[])
  RETURNS TABLE (uid text, last bigint, generation bigint, busy boolean, open bigint, state bytea)
  LANGUAGE plpgsql
  SET enable_seqscan TO 'off' SET enable_hashjoin TO 'off' SET enable_mergejoin TO 'off'
AS $$
BEGIN
  PERFORM log_lock_partition(-2);
  RETURN QUERY SELECT ''::text, coalesce((SELECT max(c.position) FROM changes c), 1), 0::bigint, false, 0::bigint,
                      ''::bytea;
  IF cardinality(uids) > 0 THEN
    RETURN QUERY SELECT u.uid, 0::bigint, coalesce(t.generation, 1), coalesce(t.busy, false),
        (SELECT count(*) FROM processes p WHERE p.sandbox_uid = u.uid AND NOT p.ended), h.state
      FROM unnest(uids) AS u (uid)
      LEFT JOIN sandbox_told t ON t.uid = u.uid
      LEFT JOIN (sandboxes s JOIN heads h ON h.stream = 'sandbox/' || s.uid) ON s.uid = u.uid;
  END IF;
END $$;

-- s_own: the row of sandboxes too; the caller holds the head of that Sandbox.
CREATE FUNCTION changes_write(
    now_us bigint, c_position bigint[], c_project text[], c_resource text[], c_type text[], c_object text[],
    c_was text[],
    s_uid text[], s_version bigint[], s_generation bigint[], s_busy integer[], s_own integer[], s_phase text[],
    s_labels text[], s_gone text[], p_uid text[], p_version bigint[])
  RETURNS void
  LANGUAGE plpgsql
  SET enable_seqscan TO 'off' SET enable_hashjoin TO 'off' SET enable_mergejoin TO 'off'
AS $$
BEGIN
  INSERT INTO changes (position, project, resource, type, at_us, object, was)
    SELECT u.n, u.p, u.r, u.t, now_us, u.o, u.w
    FROM unnest(c_position, c_project, c_resource, c_type, c_object, c_was) AS u (n, p, r, t, o, w);
  IF cardinality(s_uid) > 0 THEN
    INSERT INTO sandbox_told AS k (uid, resource_version, generation, busy)
      SELECT u.uid, u.v, u.g, u.b <> 0 FROM unnest(s_uid, s_version, s_generation, s_busy) AS u (uid, v, g, b)
      ON CONFLICT (uid) DO UPDATE
        SET resource_version = excluded.resource_version, generation = excluded.generation, busy = excluded.busy;
    UPDATE sandboxes s SET phase = u.p, labels = u.l::jsonb
      FROM unnest(s_uid, s_own, s_phase, s_labels) AS u (uid, own, p, l) WHERE s.uid = u.uid AND u.own <> 0;
  END IF;
  IF cardinality(s_gone) > 0 THEN
    DELETE FROM sandbox_told k WHERE k.uid = ANY (s_gone);
  END IF;
  IF cardinality(p_uid) > 0 THEN
    UPDATE processes p SET resource_version = u.v FROM unnest(p_uid, p_version) AS u (uid, v) WHERE p.uid = u.uid;
  END IF;
END $$;

-- Adds events, or counts those that are there. Each object keeps its `keep` latest; what falls out is answered
-- with ord 0. Within one call no two are equal.
CREATE FUNCTION object_events_add(keep integer, now_us bigint, e_uid text[], e_project text[], e_kind text[],
                                  e_object_uid text[], e_object_name text[], e_type text[], e_reason text[],
                                  e_message text[], e_count bigint[], e_version bigint[])
  RETURNS TABLE (ord bigint, uid text, project text, name text, object_kind text, object_uid text, object_name text,
                 type text, reason text, message text, count bigint, first_us bigint, last_us bigint)
  LANGUAGE plpgsql
  SET enable_seqscan TO 'off' SET enable_hashjoin TO 'off' SET enable_mergejoin TO 'off'
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    INSERT INTO object_events AS e (uid, project, name, object_kind, object_uid, object_name, type, reason, message,
                                    count, first_us, last_us, resource_version)
      SELECT u.i, u.p, u.n || '.' || to_hex(u.v), u.k, u.o, u.n, u.t, u.r, u.m, u.c, now_us, now_us, u.v
      FROM unnest(e_uid, e_project, e_kind, e_object_uid, e_object_name, e_type, e_reason, e_message, e_count,
                  e_version) AS u (i, p, k, o, n, t, r, m, c, v)
      ON CONFLICT (object_uid, type, reason, md5(message)) DO UPDATE
        SET count = e.count + excluded.count, last_us = excluded.last_us, resource_version = excluded.resource_version
      RETURNING e.resource_version, e.uid, e.project, e.name, e.object_kind, e.object_uid, e.object_name, e.type,
                e.reason, e.message, e.count, e.first_us, e.last_us;
  RETURN QUERY
    DELETE FROM object_events AS e
      WHERE e.uid IN (SELECT x.uid FROM (SELECT DISTINCT o FROM unnest(e_object_uid) AS o) AS d
                      CROSS JOIN LATERAL (SELECT y.uid FROM object_events y WHERE y.object_uid = d.o
                                          ORDER BY y.last_us DESC, y.uid OFFSET keep) AS x)
      RETURNING 0::bigint, e.uid, e.project, e.name, e.object_kind, e.object_uid, e.object_name, e.type, e.reason,
                e.message, e.count, e.first_us, e.last_us;
END $$;
COMMIT;
