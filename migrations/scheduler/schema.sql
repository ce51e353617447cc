-- The whole schema of scheduler, written by dev/migrate --write-schema from the steps beside it.
SET check_function_bodies = false; -- functions come before the tables that they name

CREATE SCHEMA scheduler;

ALTER SCHEMA scheduler OWNER TO scheduler;

CREATE FUNCTION scheduler.log_append(h_stream text[], h_version bigint[], h_state_version integer[], h_state bytea[], unused_streams text[], k_key text[], k_hash text[], k_answer bytea[], unused_keys text[], parts integer[], now_us bigint, e_part integer[], e_offset bigint[], e_stream text[], e_version bigint[], e_type text[], e_payload bytea[]) RETURNS TABLE(base_partition integer, base_position bigint)
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

ALTER FUNCTION scheduler.log_append(h_stream text[], h_version bigint[], h_state_version integer[], h_state bytea[], unused_streams text[], k_key text[], k_hash text[], k_answer bytea[], unused_keys text[], parts integer[], now_us bigint, e_part integer[], e_offset bigint[], e_stream text[], e_version bigint[], e_type text[], e_payload bytea[]) OWNER TO scheduler;

CREATE FUNCTION scheduler.log_claim(keys text[], hashes text[]) RETURNS TABLE(taken_key text, taken_hash text, taken_answer bytea)
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

ALTER FUNCTION scheduler.log_claim(keys text[], hashes text[]) OWNER TO scheduler;

CREATE FUNCTION scheduler.log_ensure_ranges(ahead integer) RETURNS integer
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

ALTER FUNCTION scheduler.log_ensure_ranges(ahead integer) OWNER TO scheduler;

CREATE FUNCTION scheduler.log_lock_heads(streams text[], parts integer[], may_wait boolean) RETURNS TABLE(head_stream text, head_version bigint, head_state_version integer, head_state bytea)
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

ALTER FUNCTION scheduler.log_lock_heads(streams text[], parts integer[], may_wait boolean) OWNER TO scheduler;

CREATE FUNCTION scheduler.log_lock_partition(p integer) RETURNS void
    LANGUAGE sql
    AS $$
  SELECT pg_advisory_xact_lock(('events'::regclass::oid::bigint - 2147483648)::integer, p)
$$;

ALTER FUNCTION scheduler.log_lock_partition(p integer) OWNER TO scheduler;

CREATE FUNCTION scheduler.log_take_heads(streams text[], parts integer[], may_wait boolean) RETURNS TABLE(head_stream text, head_version bigint, head_state_version integer, head_state bytea, head_place tid)
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

ALTER FUNCTION scheduler.log_take_heads(streams text[], parts integer[], may_wait boolean) OWNER TO scheduler;

CREATE FUNCTION scheduler.log_write(h_place tid[], h_version bigint[], h_state_version integer[], h_state bytea[], unused_streams text[], k_key text[], k_hash text[], k_answer bytea[], unused_keys text[], parts integer[], now_us bigint, e_part integer[], e_offset bigint[], e_stream text[], e_version bigint[], e_type text[], e_payload bytea[]) RETURNS TABLE(base_partition integer, base_position bigint)
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

ALTER FUNCTION scheduler.log_write(h_place tid[], h_version bigint[], h_state_version integer[], h_state bytea[], unused_streams text[], k_key text[], k_hash text[], k_answer bytea[], unused_keys text[], parts integer[], now_us bigint, e_part integer[], e_offset bigint[], e_stream text[], e_version bigint[], e_type text[], e_payload bytea[]) OWNER TO scheduler;

CREATE TABLE scheduler.consumer_offsets (
    topic text NOT NULL,
    log_partition integer NOT NULL,
    "position" bigint DEFAULT 0 NOT NULL,
    cursor text DEFAULT ''::text NOT NULL
);

ALTER TABLE scheduler.consumer_offsets OWNER TO scheduler;

CREATE TABLE scheduler.deadlines (
    stream text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    start bigint NOT NULL,
    due_us bigint NOT NULL
);

ALTER TABLE scheduler.deadlines OWNER TO scheduler;

CREATE TABLE scheduler.desired_slots (
    sandbox_uid text NOT NULL COLLATE pg_catalog."C",
    machine text NOT NULL COLLATE pg_catalog."C",
    epoch bigint NOT NULL,
    changes bigint NOT NULL,
    phase integer NOT NULL,
    desired bytea NOT NULL
)
WITH (fillfactor='60');

ALTER TABLE scheduler.desired_slots OWNER TO scheduler;

CREATE TABLE scheduler.events (
    log_partition integer NOT NULL,
    "position" bigint NOT NULL,
    version bigint NOT NULL,
    at_us bigint NOT NULL,
    stream text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    payload bytea NOT NULL
)
PARTITION BY RANGE ("position");

ALTER TABLE scheduler.events OWNER TO scheduler;

CREATE TABLE scheduler.events_0 (
    log_partition integer NOT NULL,
    "position" bigint NOT NULL,
    version bigint NOT NULL,
    at_us bigint NOT NULL,
    stream text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    payload bytea NOT NULL
);

ALTER TABLE scheduler.events_0 OWNER TO scheduler;

CREATE TABLE scheduler.events_1 (
    log_partition integer NOT NULL,
    "position" bigint NOT NULL,
    version bigint NOT NULL,
    at_us bigint NOT NULL,
    stream text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    payload bytea NOT NULL
);

ALTER TABLE scheduler.events_1 OWNER TO scheduler;

CREATE TABLE scheduler.events_2 (
    log_partition integer NOT NULL,
    "position" bigint NOT NULL,
    version bigint NOT NULL,
    at_us bigint NOT NULL,
    stream text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    payload bytea NOT NULL
);

ALTER TABLE scheduler.events_2 OWNER TO scheduler;

CREATE TABLE scheduler.heads (
    stream text NOT NULL COLLATE pg_catalog."C",
    log_partition integer NOT NULL,
    version bigint DEFAULT 0 NOT NULL,
    state_version integer DEFAULT 0 NOT NULL,
    state bytea DEFAULT '\x'::bytea NOT NULL,
    CONSTRAINT heads_stream_check CHECK (((octet_length(stream) >= 1) AND (octet_length(stream) <= 256)))
)
WITH (fillfactor='60', autovacuum_vacuum_scale_factor='0.05', autovacuum_analyze_scale_factor='0.05');

ALTER TABLE scheduler.heads OWNER TO scheduler;

CREATE TABLE scheduler.idempotency (
    key text NOT NULL COLLATE pg_catalog."C",
    input_hash text NOT NULL COLLATE pg_catalog."C",
    answer bytea,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT idempotency_key_check CHECK (((octet_length(key) >= 1) AND (octet_length(key) <= 512)))
)
WITH (fillfactor='60');

ALTER TABLE scheduler.idempotency OWNER TO scheduler;

CREATE TABLE scheduler.log_settings (
    partitions integer NOT NULL,
    range_size bigint DEFAULT 10000000 NOT NULL,
    only_row boolean DEFAULT true NOT NULL,
    CONSTRAINT log_settings_only_row_check CHECK (only_row),
    CONSTRAINT log_settings_partitions_check CHECK (((partitions >= 1) AND (partitions <= 64))),
    CONSTRAINT log_settings_range_size_check CHECK ((range_size > 0))
);

ALTER TABLE scheduler.log_settings OWNER TO scheduler;

CREATE TABLE scheduler.machines (
    machine text NOT NULL COLLATE pg_catalog."C",
    org text NOT NULL COLLATE pg_catalog."C",
    runtime text NOT NULL,
    data_path text NOT NULL,
    incarnation text NOT NULL,
    cpu_milli bigint NOT NULL,
    memory_bytes bigint NOT NULL,
    disk_bytes bigint NOT NULL,
    used_cpu_milli bigint NOT NULL,
    used_memory_bytes bigint NOT NULL,
    used_disk_bytes bigint NOT NULL,
    past_changes bigint DEFAULT 1 NOT NULL,
    seen_us bigint DEFAULT 0 NOT NULL,
    lost_incarnation text DEFAULT ''::text NOT NULL
)
WITH (fillfactor='60');

ALTER TABLE scheduler.machines OWNER TO scheduler;

CREATE TABLE scheduler.parked (
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

ALTER TABLE scheduler.parked OWNER TO scheduler;

ALTER TABLE scheduler.parked ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME scheduler.parked_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW scheduler.published_events AS
 SELECT events.log_partition,
    events."position",
    events.stream,
    events.version,
    events.type,
    events.payload,
    events.at_us
   FROM scheduler.events;

ALTER TABLE scheduler.published_events OWNER TO scheduler;

CREATE TABLE scheduler.purchases (
    org text NOT NULL COLLATE pg_catalog."C",
    first_us bigint NOT NULL
);

ALTER TABLE scheduler.purchases OWNER TO scheduler;

CREATE TABLE scheduler.relay_offsets (
    log_partition integer NOT NULL,
    "position" bigint NOT NULL
);

ALTER TABLE scheduler.relay_offsets OWNER TO scheduler;

CREATE TABLE scheduler.waiting_starts (
    sandbox_uid text NOT NULL COLLATE pg_catalog."C",
    start bigint NOT NULL,
    org text NOT NULL COLLATE pg_catalog."C",
    cpu_milli bigint NOT NULL,
    memory_bytes bigint NOT NULL,
    disk_bytes bigint NOT NULL,
    since_us bigint NOT NULL,
    whole boolean DEFAULT false NOT NULL
);

ALTER TABLE scheduler.waiting_starts OWNER TO scheduler;

ALTER TABLE ONLY scheduler.events ATTACH PARTITION scheduler.events_0 FOR VALUES FROM ('1') TO ('10000001');

ALTER TABLE ONLY scheduler.events ATTACH PARTITION scheduler.events_1 FOR VALUES FROM ('10000001') TO ('20000001');

ALTER TABLE ONLY scheduler.events ATTACH PARTITION scheduler.events_2 FOR VALUES FROM ('20000001') TO ('30000001');

ALTER TABLE ONLY scheduler.consumer_offsets
    ADD CONSTRAINT consumer_offsets_pkey PRIMARY KEY (topic, log_partition);

ALTER TABLE ONLY scheduler.deadlines
    ADD CONSTRAINT deadlines_pkey PRIMARY KEY (stream, kind);

ALTER TABLE ONLY scheduler.desired_slots
    ADD CONSTRAINT desired_slots_pkey PRIMARY KEY (sandbox_uid);

ALTER TABLE ONLY scheduler.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (log_partition, "position");

ALTER TABLE ONLY scheduler.events_0
    ADD CONSTRAINT events_0_pkey PRIMARY KEY (log_partition, "position");

ALTER TABLE ONLY scheduler.events_1
    ADD CONSTRAINT events_1_pkey PRIMARY KEY (log_partition, "position");

ALTER TABLE ONLY scheduler.events_2
    ADD CONSTRAINT events_2_pkey PRIMARY KEY (log_partition, "position");

ALTER TABLE ONLY scheduler.heads
    ADD CONSTRAINT heads_pkey PRIMARY KEY (stream);

ALTER TABLE ONLY scheduler.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (key);

ALTER TABLE ONLY scheduler.log_settings
    ADD CONSTRAINT log_settings_pkey PRIMARY KEY (only_row);

ALTER TABLE ONLY scheduler.machines
    ADD CONSTRAINT machines_pkey PRIMARY KEY (machine);

ALTER TABLE ONLY scheduler.parked
    ADD CONSTRAINT parked_pkey PRIMARY KEY (id);

ALTER TABLE ONLY scheduler.parked
    ADD CONSTRAINT parked_topic_log_partition_position_key UNIQUE (topic, log_partition, "position");

ALTER TABLE ONLY scheduler.purchases
    ADD CONSTRAINT purchases_pkey PRIMARY KEY (org);

ALTER TABLE ONLY scheduler.relay_offsets
    ADD CONSTRAINT relay_offsets_pkey PRIMARY KEY (log_partition);

ALTER TABLE ONLY scheduler.waiting_starts
    ADD CONSTRAINT waiting_starts_pkey PRIMARY KEY (sandbox_uid);

CREATE INDEX deadlines_due ON scheduler.deadlines USING btree (due_us);

CREATE INDEX desired_slots_of_machine ON scheduler.desired_slots USING btree (machine);

CREATE INDEX events_by_stream ON ONLY scheduler.events USING btree (stream, version);

CREATE INDEX events_0_stream_version_idx ON scheduler.events_0 USING btree (stream, version);

CREATE INDEX events_1_stream_version_idx ON scheduler.events_1 USING btree (stream, version);

CREATE INDEX events_2_stream_version_idx ON scheduler.events_2 USING btree (stream, version);

CREATE INDEX parked_stream ON scheduler.parked USING btree (topic, stream, "position");

CREATE INDEX waiting_starts_oldest ON scheduler.waiting_starts USING btree (since_us);

ALTER INDEX scheduler.events_pkey ATTACH PARTITION scheduler.events_0_pkey;

ALTER INDEX scheduler.events_by_stream ATTACH PARTITION scheduler.events_0_stream_version_idx;

ALTER INDEX scheduler.events_pkey ATTACH PARTITION scheduler.events_1_pkey;

ALTER INDEX scheduler.events_by_stream ATTACH PARTITION scheduler.events_1_stream_version_idx;

ALTER INDEX scheduler.events_pkey ATTACH PARTITION scheduler.events_2_pkey;

ALTER INDEX scheduler.events_by_stream ATTACH PARTITION scheduler.events_2_stream_version_idx;

GRANT USAGE ON SCHEMA scheduler TO lifecycle;
GRANT USAGE ON SCHEMA scheduler TO metering;

GRANT SELECT ON TABLE scheduler.published_events TO lifecycle;
GRANT SELECT ON TABLE scheduler.published_events TO metering;

