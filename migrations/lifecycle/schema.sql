-- The whole schema of lifecycle, written by dev/migrate --write-schema from the steps beside it.
SET check_function_bodies = false; -- functions come before the tables that they name

CREATE SCHEMA lifecycle;

ALTER SCHEMA lifecycle OWNER TO lifecycle;

CREATE FUNCTION lifecycle.audit_is_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  RAISE 'rows of the audit log are never changed';
END $$;

ALTER FUNCTION lifecycle.audit_is_append_only() OWNER TO lifecycle;

CREATE FUNCTION lifecycle.changes_begin(uids text[]) RETURNS TABLE(uid text, last bigint, generation bigint, busy boolean, open bigint, state bytea)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
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

ALTER FUNCTION lifecycle.changes_begin(uids text[]) OWNER TO lifecycle;

CREATE FUNCTION lifecycle.changes_write(now_us bigint, c_position bigint[], c_project text[], c_resource text[], c_type text[], c_object text[], c_was text[], s_uid text[], s_version bigint[], s_generation bigint[], s_busy integer[], s_own integer[], s_phase text[], s_labels text[], s_gone text[], p_uid text[], p_version bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
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

ALTER FUNCTION lifecycle.changes_write(now_us bigint, c_position bigint[], c_project text[], c_resource text[], c_type text[], c_object text[], c_was text[], s_uid text[], s_version bigint[], s_generation bigint[], s_busy integer[], s_own integer[], s_phase text[], s_labels text[], s_gone text[], p_uid text[], p_version bigint[]) OWNER TO lifecycle;

CREATE FUNCTION lifecycle.log_append(h_stream text[], h_version bigint[], h_state_version integer[], h_state bytea[], unused_streams text[], k_key text[], k_hash text[], k_answer bytea[], unused_keys text[], parts integer[], now_us bigint, e_part integer[], e_offset bigint[], e_stream text[], e_version bigint[], e_type text[], e_payload bytea[]) RETURNS TABLE(base_partition integer, base_position bigint)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
  p            integer;
  bases        bigint[];  -- by partition
  rows_written integer;
BEGIN
  IF cardinality(h_stream) > 0 THEN
    UPDATE heads h SET version = u.v, state_version = u.sv, state = u.st
      FROM unnest(h_stream, h_version, h_state_version, h_state) AS u (s, v, sv, st) WHERE h.stream = u.s;
    GET DIAGNOSTICS rows_written = ROW_COUNT;
    IF rows_written <> cardinality(h_stream) THEN
      RAISE 'heads written: % of %', rows_written, cardinality(h_stream);
    END IF;
  END IF;
  IF cardinality(unused_streams) > 0 THEN
    DELETE FROM heads WHERE stream = ANY (unused_streams) AND version = 0 AND state_version = 0;
  END IF;
  IF cardinality(k_key) > 0 THEN
    UPDATE idempotency i SET input_hash = u.h, answer = u.a
      FROM unnest(k_key, k_hash, k_answer) AS u (k, h, a) WHERE i.key = u.k;
  END IF;
  IF cardinality(unused_keys) > 0 THEN
    DELETE FROM idempotency WHERE key = ANY (unused_keys) AND answer IS NULL;
  END IF;
  IF cardinality(parts) = 0 THEN
    RETURN;
  END IF;
  FOREACH p IN ARRAY parts LOOP
    PERFORM log_lock_partition(p);
  END LOOP;
  FOREACH p IN ARRAY parts LOOP
    bases[p] := coalesce((SELECT e.position FROM events e WHERE e.log_partition = p
                          ORDER BY e.position DESC LIMIT 1), 0);
    RETURN QUERY SELECT p, bases[p];
  END LOOP;
  INSERT INTO events (log_partition, position, version, at_us, stream, type, payload)
    SELECT u.part, bases[u.part] + u.off, u.v, now_us, u.s, u.t, u.b
    FROM unnest(e_part, e_offset, e_stream, e_version, e_type, e_payload) AS u (part, off, s, v, t, b);
END $$;

ALTER FUNCTION lifecycle.log_append(h_stream text[], h_version bigint[], h_state_version integer[], h_state bytea[], unused_streams text[], k_key text[], k_hash text[], k_answer bytea[], unused_keys text[], parts integer[], now_us bigint, e_part integer[], e_offset bigint[], e_stream text[], e_version bigint[], e_type text[], e_payload bytea[]) OWNER TO lifecycle;

CREATE FUNCTION lifecycle.log_claim(keys text[], hashes text[]) RETURNS TABLE(taken_key text, taken_hash text, taken_answer bytea)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
BEGIN
  INSERT INTO idempotency (key, input_hash)
    SELECT k, h FROM unnest(keys, hashes) AS u (k, h) ON CONFLICT DO NOTHING;
  RETURN QUERY SELECT i.key, i.input_hash, i.answer FROM idempotency i
    WHERE i.key = ANY (keys) AND i.answer IS NOT NULL;
END $$;

ALTER FUNCTION lifecycle.log_claim(keys text[], hashes text[]) OWNER TO lifecycle;

CREATE FUNCTION lifecycle.log_ensure_ranges(ahead integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
  size  bigint := (SELECT range_size FROM log_settings);
  last  bigint := coalesce((SELECT max(position) FROM events), 0);
  n     bigint;
  name  text;
  made  integer := 0;
BEGIN
  PERFORM log_lock_partition(-1);  -- one maker at a time
  FOR n IN greatest(last - 1, 0) / size .. greatest(last - 1, 0) / size + ahead LOOP
    name := 'events_' || n;
    CONTINUE WHEN to_regclass(name) IS NOT NULL;
    EXECUTE format('CREATE TABLE %I (LIKE events INCLUDING DEFAULTS INCLUDING INDEXES)', name);
    EXECUTE format('ALTER TABLE events ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
                   name, n * size + 1, (n + 1) * size + 1);
    made := made + 1;
  END LOOP;
  RETURN made;
END $$;

ALTER FUNCTION lifecycle.log_ensure_ranges(ahead integer) OWNER TO lifecycle;

CREATE FUNCTION lifecycle.log_lock_heads(streams text[], parts integer[], may_wait boolean) RETURNS TABLE(head_stream text, head_version bigint, head_state_version integer, head_state bytea)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
  found_rows integer;
BEGIN
  IF may_wait THEN
    RETURN QUERY SELECT h.stream, h.version, h.state_version, h.state FROM heads h
      WHERE h.stream = ANY (streams) ORDER BY h.stream FOR UPDATE;
  ELSE
    RETURN QUERY SELECT h.stream, h.version, h.state_version, h.state FROM heads h
      WHERE h.stream = ANY (streams) FOR UPDATE SKIP LOCKED;
  END IF;
  GET DIAGNOSTICS found_rows = ROW_COUNT;
  IF found_rows < cardinality(streams) THEN
    RETURN QUERY INSERT INTO heads AS h (stream, log_partition)
      SELECT s, p FROM unnest(streams, parts) AS u (s, p)
      ON CONFLICT DO NOTHING RETURNING h.stream, h.version, h.state_version, h.state;
  END IF;
END $$;

ALTER FUNCTION lifecycle.log_lock_heads(streams text[], parts integer[], may_wait boolean) OWNER TO lifecycle;

CREATE FUNCTION lifecycle.log_lock_partition(p integer) RETURNS void
    LANGUAGE sql
    AS $$
  SELECT pg_advisory_xact_lock(('events'::regclass::oid::bigint - 2147483648)::integer, p)
$$;

ALTER FUNCTION lifecycle.log_lock_partition(p integer) OWNER TO lifecycle;

CREATE FUNCTION lifecycle.log_take_heads(streams text[], parts integer[], may_wait boolean) RETURNS TABLE(head_stream text, head_version bigint, head_state_version integer, head_state bytea, head_place tid)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
  found_rows integer;
BEGIN
  IF may_wait THEN
    RETURN QUERY SELECT h.stream, h.version, h.state_version, h.state, h.ctid FROM heads h
      WHERE h.stream = ANY (streams) ORDER BY h.stream FOR UPDATE;
  ELSE
    RETURN QUERY SELECT h.stream, h.version, h.state_version, h.state, h.ctid FROM heads h
      WHERE h.stream = ANY (streams) FOR UPDATE SKIP LOCKED;
  END IF;
  GET DIAGNOSTICS found_rows = ROW_COUNT;
  IF found_rows < cardinality(streams) THEN
    RETURN QUERY INSERT INTO heads AS h (stream, log_partition)
      SELECT s, p FROM unnest(streams, parts) AS u (s, p)
      ON CONFLICT DO NOTHING RETURNING h.stream, h.version, h.state_version, h.state, h.ctid;
  END IF;
END $$;

ALTER FUNCTION lifecycle.log_take_heads(streams text[], parts integer[], may_wait boolean) OWNER TO lifecycle;

CREATE FUNCTION lifecycle.log_write(h_place tid[], h_version bigint[], h_state_version integer[], h_state bytea[], unused_streams text[], k_key text[], k_hash text[], k_answer bytea[], unused_keys text[], parts integer[], now_us bigint, e_part integer[], e_offset bigint[], e_stream text[], e_version bigint[], e_type text[], e_payload bytea[]) RETURNS TABLE(base_partition integer, base_position bigint)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
  bases        bigint[];  -- by partition
  rows_written integer;
BEGIN
  IF cardinality(h_place) > 0 THEN
    UPDATE heads h SET version = u.v, state_version = u.sv, state = u.st
      FROM unnest(h_place, h_version, h_state_version, h_state) AS u (place, v, sv, st) WHERE h.ctid = u.place;
    GET DIAGNOSTICS rows_written = ROW_COUNT;
    IF rows_written <> cardinality(h_place) THEN
      RAISE 'heads written: % of %', rows_written, cardinality(h_place);
    END IF;
  END IF;
  IF cardinality(unused_streams) > 0 THEN
    DELETE FROM heads WHERE stream = ANY (unused_streams) AND version = 0 AND state_version = 0;
  END IF;
  IF cardinality(k_key) > 0 THEN
    UPDATE idempotency i SET input_hash = u.h, answer = u.a
      FROM unnest(k_key, k_hash, k_answer) AS u (k, h, a) WHERE i.key = u.k;
  END IF;
  IF cardinality(unused_keys) > 0 THEN
    DELETE FROM idempotency WHERE key = ANY (unused_keys) AND answer IS NULL;
  END IF;
  IF cardinality(parts) = 0 THEN
    RETURN;
  END IF;
  FOREACH base_partition IN ARRAY parts LOOP
    PERFORM log_lock_partition(base_partition);
  END LOOP;
  FOREACH base_partition IN ARRAY parts LOOP
    base_position := coalesce((SELECT e.position FROM events e WHERE e.log_partition = base_partition
                               ORDER BY e.position DESC LIMIT 1), 0);
    bases[base_partition] := base_position;
    RETURN NEXT;
  END LOOP;
  INSERT INTO events (log_partition, position, version, at_us, stream, type, payload)
    SELECT u.part, bases[u.part] + u.off, u.v, now_us, u.s, u.t, u.b
    FROM unnest(e_part, e_offset, e_stream, e_version, e_type, e_payload) AS u (part, off, s, v, t, b);
END $$;

ALTER FUNCTION lifecycle.log_write(h_place tid[], h_version bigint[], h_state_version integer[], h_state bytea[], unused_streams text[], k_key text[], k_hash text[], k_answer bytea[], unused_keys text[], parts integer[], now_us bigint, e_part integer[], e_offset bigint[], e_stream text[], e_version bigint[], e_type text[], e_payload bytea[]) OWNER TO lifecycle;

CREATE FUNCTION lifecycle.object_events_add(keep integer, now_us bigint, e_uid text[], e_project text[], e_kind text[], e_object_uid text[], e_object_name text[], e_type text[], e_reason text[], e_message text[], e_count bigint[], e_version bigint[]) RETURNS TABLE(ord bigint, uid text, project text, name text, object_kind text, object_uid text, object_name text, type text, reason text, message text, count bigint, first_us bigint, last_us bigint)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
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

ALTER FUNCTION lifecycle.object_events_add(keep integer, now_us bigint, e_uid text[], e_project text[], e_kind text[], e_object_uid text[], e_object_name text[], e_type text[], e_reason text[], e_message text[], e_count bigint[], e_version bigint[]) OWNER TO lifecycle;

CREATE TABLE lifecycle.api_key_secrets (
    sha256 text NOT NULL COLLATE pg_catalog."C",
    key_id text NOT NULL COLLATE pg_catalog."C",
    hint text DEFAULT ''::text NOT NULL,
    created_us bigint NOT NULL,
    expires_us bigint
);

ALTER TABLE lifecycle.api_key_secrets OWNER TO lifecycle;

CREATE TABLE lifecycle.api_keys (
    id text NOT NULL COLLATE pg_catalog."C",
    org text NOT NULL COLLATE pg_catalog."C",
    role text NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    project text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    created_by text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    created_us bigint NOT NULL,
    expires_us bigint,
    revoked_us bigint,
    CONSTRAINT api_keys_role_check CHECK ((role = ANY (ARRAY['viewer'::text, 'developer'::text, 'billing'::text, 'admin'::text])))
);

ALTER TABLE lifecycle.api_keys OWNER TO lifecycle;

CREATE TABLE lifecycle.audit (
    org text NOT NULL COLLATE pg_catalog."C",
    at_us bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    key_id text NOT NULL COLLATE pg_catalog."C",
    key_name text NOT NULL COLLATE pg_catalog."C",
    role text NOT NULL COLLATE pg_catalog."C",
    project text NOT NULL COLLATE pg_catalog."C",
    method text NOT NULL COLLATE pg_catalog."C",
    route text NOT NULL COLLATE pg_catalog."C",
    object text NOT NULL COLLATE pg_catalog."C",
    status integer NOT NULL,
    reason text NOT NULL COLLATE pg_catalog."C",
    peer text NOT NULL
);

ALTER TABLE lifecycle.audit OWNER TO lifecycle;

CREATE TABLE lifecycle.changes (
    "position" bigint NOT NULL,
    project text NOT NULL COLLATE pg_catalog."C",
    resource text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    at_us bigint NOT NULL,
    object text NOT NULL,
    was text NOT NULL
);

ALTER TABLE lifecycle.changes OWNER TO lifecycle;

CREATE TABLE lifecycle.changes_floor (
    "position" bigint DEFAULT 1 NOT NULL,
    only_row boolean DEFAULT true NOT NULL,
    CONSTRAINT changes_floor_only_row_check CHECK (only_row)
);

ALTER TABLE lifecycle.changes_floor OWNER TO lifecycle;

CREATE TABLE lifecycle.consumer_offsets (
    topic text NOT NULL,
    log_partition integer NOT NULL,
    "position" bigint DEFAULT 0 NOT NULL,
    cursor text DEFAULT ''::text NOT NULL
);

ALTER TABLE lifecycle.consumer_offsets OWNER TO lifecycle;

CREATE TABLE lifecycle.deadlines (
    stream text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    due_us bigint NOT NULL
);

ALTER TABLE lifecycle.deadlines OWNER TO lifecycle;

CREATE TABLE lifecycle.events (
    log_partition integer NOT NULL,
    "position" bigint NOT NULL,
    version bigint NOT NULL,
    at_us bigint NOT NULL,
    stream text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    payload bytea NOT NULL
)
PARTITION BY RANGE ("position");

ALTER TABLE lifecycle.events OWNER TO lifecycle;

CREATE TABLE lifecycle.events_0 (
    log_partition integer NOT NULL,
    "position" bigint NOT NULL,
    version bigint NOT NULL,
    at_us bigint NOT NULL,
    stream text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    payload bytea NOT NULL
);

ALTER TABLE lifecycle.events_0 OWNER TO lifecycle;

CREATE TABLE lifecycle.events_1 (
    log_partition integer NOT NULL,
    "position" bigint NOT NULL,
    version bigint NOT NULL,
    at_us bigint NOT NULL,
    stream text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    payload bytea NOT NULL
);

ALTER TABLE lifecycle.events_1 OWNER TO lifecycle;

CREATE TABLE lifecycle.events_2 (
    log_partition integer NOT NULL,
    "position" bigint NOT NULL,
    version bigint NOT NULL,
    at_us bigint NOT NULL,
    stream text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    payload bytea NOT NULL
);

ALTER TABLE lifecycle.events_2 OWNER TO lifecycle;

CREATE TABLE lifecycle.funds (
    org text NOT NULL COLLATE pg_catalog."C",
    changed_us bigint NOT NULL
);

ALTER TABLE lifecycle.funds OWNER TO lifecycle;

CREATE TABLE lifecycle.heads (
    stream text NOT NULL COLLATE pg_catalog."C",
    log_partition integer NOT NULL,
    version bigint DEFAULT 0 NOT NULL,
    state_version integer DEFAULT 0 NOT NULL,
    state bytea DEFAULT '\x'::bytea NOT NULL,
    CONSTRAINT heads_stream_check CHECK (((octet_length(stream) >= 1) AND (octet_length(stream) <= 256)))
)
WITH (fillfactor='60', autovacuum_vacuum_scale_factor='0.05', autovacuum_analyze_scale_factor='0.05');

ALTER TABLE lifecycle.heads OWNER TO lifecycle;

CREATE TABLE lifecycle.idempotency (
    key text NOT NULL COLLATE pg_catalog."C",
    input_hash text NOT NULL COLLATE pg_catalog."C",
    answer bytea,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT idempotency_key_check CHECK (((octet_length(key) >= 1) AND (octet_length(key) <= 512)))
)
WITH (fillfactor='60');

ALTER TABLE lifecycle.idempotency OWNER TO lifecycle;

CREATE TABLE lifecycle.log_settings (
    partitions integer NOT NULL,
    range_size bigint DEFAULT 10000000 NOT NULL,
    only_row boolean DEFAULT true NOT NULL,
    CONSTRAINT log_settings_only_row_check CHECK (only_row),
    CONSTRAINT log_settings_partitions_check CHECK (((partitions >= 1) AND (partitions <= 64))),
    CONSTRAINT log_settings_range_size_check CHECK ((range_size > 0))
);

ALTER TABLE lifecycle.log_settings OWNER TO lifecycle;

CREATE TABLE lifecycle.object_events (
    uid text NOT NULL COLLATE pg_catalog."C",
    project text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    object_kind text NOT NULL COLLATE pg_catalog."C",
    object_uid text NOT NULL COLLATE pg_catalog."C",
    object_name text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    message text NOT NULL,
    count bigint NOT NULL,
    first_us bigint NOT NULL,
    last_us bigint NOT NULL,
    resource_version bigint NOT NULL,
    expires_us bigint,
    CONSTRAINT object_events_type_check CHECK ((type = ANY (ARRAY['Normal'::text, 'Warning'::text])))
);

ALTER TABLE lifecycle.object_events OWNER TO lifecycle;

CREATE TABLE lifecycle.organizations (
    org text NOT NULL COLLATE pg_catalog."C",
    display_name text DEFAULT ''::text NOT NULL,
    created_us bigint NOT NULL,
    suspended_us bigint,
    suspended_reason text DEFAULT ''::text NOT NULL,
    quota_sandboxes bigint,
    quota_cpu_milli bigint,
    quota_stored_bytes bigint,
    quota_creates_per_minute bigint,
    CONSTRAINT organizations_quota_cpu_milli_check CHECK ((quota_cpu_milli >= 0)),
    CONSTRAINT organizations_quota_creates_per_minute_check CHECK ((quota_creates_per_minute >= 0)),
    CONSTRAINT organizations_quota_sandboxes_check CHECK ((quota_sandboxes >= 0)),
    CONSTRAINT organizations_quota_stored_bytes_check CHECK ((quota_stored_bytes >= 0))
);

ALTER TABLE lifecycle.organizations OWNER TO lifecycle;

CREATE TABLE lifecycle.outputs_to_remove (
    sandbox_uid text NOT NULL COLLATE pg_catalog."C"
);

ALTER TABLE lifecycle.outputs_to_remove OWNER TO lifecycle;

CREATE TABLE lifecycle.parked (
    id bigint NOT NULL,
    topic text NOT NULL,
    log_partition integer NOT NULL,
    "position" bigint NOT NULL,
    stream text NOT NULL,
    version bigint NOT NULL,
    type text NOT NULL,
    payload bytea NOT NULL,
    at_us bigint NOT NULL,
    error text NOT NULL,
    parked_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE lifecycle.parked OWNER TO lifecycle;

ALTER TABLE lifecycle.parked ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME lifecycle.parked_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE lifecycle.processes (
    uid text NOT NULL COLLATE pg_catalog."C",
    sandbox_uid text NOT NULL COLLATE pg_catalog."C",
    project text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    epoch bigint NOT NULL,
    admitted_us bigint NOT NULL,
    expires_us bigint NOT NULL,
    ended boolean DEFAULT false NOT NULL,
    resource_version bigint DEFAULT 0 NOT NULL,
    heard boolean DEFAULT false NOT NULL,
    over_us bigint,
    over_reason text
);

ALTER TABLE lifecycle.processes OWNER TO lifecycle;

CREATE TABLE lifecycle.projects (
    id text NOT NULL COLLATE pg_catalog."C",
    org text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    created_us bigint NOT NULL
);

ALTER TABLE lifecycle.projects OWNER TO lifecycle;

CREATE VIEW lifecycle.published_events AS
 SELECT events.log_partition,
    events."position",
    events.stream,
    events.version,
    events.type,
    events.payload,
    events.at_us
   FROM lifecycle.events;

ALTER TABLE lifecycle.published_events OWNER TO lifecycle;

CREATE TABLE lifecycle.relay_offsets (
    log_partition integer NOT NULL,
    "position" bigint NOT NULL
);

ALTER TABLE lifecycle.relay_offsets OWNER TO lifecycle;

CREATE TABLE lifecycle.sandbox_env (
    uid text NOT NULL COLLATE pg_catalog."C",
    sealed bytea NOT NULL
);

ALTER TABLE lifecycle.sandbox_env OWNER TO lifecycle;

CREATE TABLE lifecycle.sandbox_told (
    uid text NOT NULL COLLATE pg_catalog."C",
    resource_version bigint NOT NULL,
    generation bigint NOT NULL,
    busy boolean NOT NULL
);

ALTER TABLE lifecycle.sandbox_told OWNER TO lifecycle;

CREATE TABLE lifecycle.sandboxes (
    uid text NOT NULL COLLATE pg_catalog."C",
    org text NOT NULL COLLATE pg_catalog."C",
    project text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    epoch bigint DEFAULT 0 NOT NULL,
    released_at_us bigint,
    phase text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    labels jsonb DEFAULT '{}'::jsonb NOT NULL
);

ALTER TABLE lifecycle.sandboxes OWNER TO lifecycle;

CREATE TABLE lifecycle.usage_changes (
    id bigint NOT NULL,
    org text NOT NULL COLLATE pg_catalog."C",
    sandboxes bigint NOT NULL,
    cpu_milli bigint NOT NULL,
    stored_bytes bigint NOT NULL
);

ALTER TABLE lifecycle.usage_changes OWNER TO lifecycle;

ALTER TABLE lifecycle.usage_changes ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME lifecycle.usage_changes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE lifecycle.usage_sums (
    org text NOT NULL COLLATE pg_catalog."C",
    sandboxes bigint NOT NULL,
    cpu_milli bigint NOT NULL,
    stored_bytes bigint NOT NULL
);

ALTER TABLE lifecycle.usage_sums OWNER TO lifecycle;

ALTER TABLE ONLY lifecycle.events ATTACH PARTITION lifecycle.events_0 FOR VALUES FROM ('1') TO ('10000001');

ALTER TABLE ONLY lifecycle.events ATTACH PARTITION lifecycle.events_1 FOR VALUES FROM ('10000001') TO ('20000001');

ALTER TABLE ONLY lifecycle.events ATTACH PARTITION lifecycle.events_2 FOR VALUES FROM ('20000001') TO ('30000001');

ALTER TABLE ONLY lifecycle.api_key_secrets
    ADD CONSTRAINT api_key_secrets_pkey PRIMARY KEY (sha256);

ALTER TABLE ONLY lifecycle.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY lifecycle.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (org, at_us, id);

ALTER TABLE ONLY lifecycle.changes_floor
    ADD CONSTRAINT changes_floor_pkey PRIMARY KEY (only_row);

ALTER TABLE ONLY lifecycle.changes
    ADD CONSTRAINT changes_pkey PRIMARY KEY ("position");

ALTER TABLE ONLY lifecycle.consumer_offsets
    ADD CONSTRAINT consumer_offsets_pkey PRIMARY KEY (topic, log_partition);

ALTER TABLE ONLY lifecycle.deadlines
    ADD CONSTRAINT deadlines_pkey PRIMARY KEY (stream, kind);

ALTER TABLE ONLY lifecycle.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (log_partition, "position");

ALTER TABLE ONLY lifecycle.events_0
    ADD CONSTRAINT events_0_pkey PRIMARY KEY (log_partition, "position");

ALTER TABLE ONLY lifecycle.events_1
    ADD CONSTRAINT events_1_pkey PRIMARY KEY (log_partition, "position");

ALTER TABLE ONLY lifecycle.events_2
    ADD CONSTRAINT events_2_pkey PRIMARY KEY (log_partition, "position");

ALTER TABLE ONLY lifecycle.funds
    ADD CONSTRAINT funds_pkey PRIMARY KEY (org);

ALTER TABLE ONLY lifecycle.heads
    ADD CONSTRAINT heads_pkey PRIMARY KEY (stream);

ALTER TABLE ONLY lifecycle.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (key);

ALTER TABLE ONLY lifecycle.log_settings
    ADD CONSTRAINT log_settings_pkey PRIMARY KEY (only_row);

ALTER TABLE ONLY lifecycle.object_events
    ADD CONSTRAINT object_events_pkey PRIMARY KEY (uid);

ALTER TABLE ONLY lifecycle.object_events
    ADD CONSTRAINT object_events_project_name_key UNIQUE (project, name);

ALTER TABLE ONLY lifecycle.organizations
    ADD CONSTRAINT organizations_pkey PRIMARY KEY (org);

ALTER TABLE ONLY lifecycle.outputs_to_remove
    ADD CONSTRAINT outputs_to_remove_pkey PRIMARY KEY (sandbox_uid);

ALTER TABLE ONLY lifecycle.parked
    ADD CONSTRAINT parked_pkey PRIMARY KEY (id);

ALTER TABLE ONLY lifecycle.parked
    ADD CONSTRAINT parked_topic_log_partition_position_key UNIQUE (topic, log_partition, "position");

ALTER TABLE ONLY lifecycle.processes
    ADD CONSTRAINT processes_pkey PRIMARY KEY (uid);

ALTER TABLE ONLY lifecycle.projects
    ADD CONSTRAINT projects_by_name UNIQUE (org, name);

ALTER TABLE ONLY lifecycle.projects
    ADD CONSTRAINT projects_pkey PRIMARY KEY (id);

ALTER TABLE ONLY lifecycle.relay_offsets
    ADD CONSTRAINT relay_offsets_pkey PRIMARY KEY (log_partition);

ALTER TABLE ONLY lifecycle.sandbox_env
    ADD CONSTRAINT sandbox_env_pkey PRIMARY KEY (uid);

ALTER TABLE ONLY lifecycle.sandbox_told
    ADD CONSTRAINT sandbox_told_pkey PRIMARY KEY (uid);

ALTER TABLE ONLY lifecycle.sandboxes
    ADD CONSTRAINT sandboxes_pkey PRIMARY KEY (uid);

ALTER TABLE ONLY lifecycle.sandboxes
    ADD CONSTRAINT sandboxes_project_name_key UNIQUE (project, name);

ALTER TABLE ONLY lifecycle.usage_changes
    ADD CONSTRAINT usage_changes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY lifecycle.usage_sums
    ADD CONSTRAINT usage_sums_pkey PRIMARY KEY (org);

CREATE INDEX api_key_secrets_of_key ON lifecycle.api_key_secrets USING btree (key_id);

CREATE UNIQUE INDEX api_keys_by_name ON lifecycle.api_keys USING btree (org, name) WHERE (revoked_us IS NULL);

CREATE INDEX changes_of_project ON lifecycle.changes USING btree (project, resource, "position");

CREATE INDEX deadlines_due ON lifecycle.deadlines USING btree (due_us);

CREATE INDEX events_by_stream ON ONLY lifecycle.events USING btree (stream, version);

CREATE INDEX events_0_stream_version_idx ON lifecycle.events_0 USING btree (stream, version);

CREATE INDEX events_1_stream_version_idx ON lifecycle.events_1 USING btree (stream, version);

CREATE INDEX events_2_stream_version_idx ON lifecycle.events_2 USING btree (stream, version);

CREATE UNIQUE INDEX object_events_equal ON lifecycle.object_events USING btree (object_uid, type, reason, md5(message));

CREATE INDEX object_events_expiring ON lifecycle.object_events USING btree (expires_us) WHERE (expires_us IS NOT NULL);

CREATE INDEX object_events_of_object ON lifecycle.object_events USING btree (object_uid, last_us);

CREATE INDEX parked_stream ON lifecycle.parked USING btree (topic, stream, "position");

CREATE INDEX processes_by_name ON lifecycle.processes USING btree (project, name);

CREATE INDEX processes_of_project ON lifecycle.processes USING btree (project, admitted_us, uid);

CREATE INDEX processes_of_sandbox ON lifecycle.processes USING btree (sandbox_uid, admitted_us);

CREATE INDEX processes_open ON lifecycle.processes USING btree (sandbox_uid) WHERE (NOT ended);

CREATE INDEX processes_over ON lifecycle.processes USING btree (over_us) WHERE ((NOT ended) AND (over_us IS NOT NULL));

CREATE INDEX processes_running ON lifecycle.processes USING btree (uid) WHERE ((NOT ended) AND (over_us IS NULL));

CREATE INDEX sandboxes_by_label ON lifecycle.sandboxes USING gin (labels);

CREATE INDEX sandboxes_by_phase ON lifecycle.sandboxes USING btree (project, phase, name);

CREATE INDEX sandboxes_of_org ON lifecycle.sandboxes USING btree (org) WHERE (released_at_us IS NULL);

CREATE INDEX usage_changes_of_org ON lifecycle.usage_changes USING btree (org) INCLUDE (sandboxes, cpu_milli, stored_bytes);

ALTER INDEX lifecycle.events_pkey ATTACH PARTITION lifecycle.events_0_pkey;

ALTER INDEX lifecycle.events_by_stream ATTACH PARTITION lifecycle.events_0_stream_version_idx;

ALTER INDEX lifecycle.events_pkey ATTACH PARTITION lifecycle.events_1_pkey;

ALTER INDEX lifecycle.events_by_stream ATTACH PARTITION lifecycle.events_1_stream_version_idx;

ALTER INDEX lifecycle.events_pkey ATTACH PARTITION lifecycle.events_2_pkey;

ALTER INDEX lifecycle.events_by_stream ATTACH PARTITION lifecycle.events_2_stream_version_idx;

CREATE TRIGGER audit_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON lifecycle.audit FOR EACH STATEMENT EXECUTE FUNCTION lifecycle.audit_is_append_only();

ALTER TABLE ONLY lifecycle.api_key_secrets
    ADD CONSTRAINT api_key_secrets_key_id_fkey FOREIGN KEY (key_id) REFERENCES lifecycle.api_keys(id);

GRANT USAGE ON SCHEMA lifecycle TO scheduler;
GRANT USAGE ON SCHEMA lifecycle TO metering;

REVOKE ALL ON TABLE lifecycle.audit FROM lifecycle;
GRANT SELECT,INSERT,REFERENCES,TRIGGER ON TABLE lifecycle.audit TO lifecycle;

GRANT SELECT ON TABLE lifecycle.published_events TO scheduler;
GRANT SELECT ON TABLE lifecycle.published_events TO metering;

