-- The event log of one service. Run with search_path = the service's schema, as the role that will own it.
-- Included by each service's first migration. The number of log partitions is fixed for good; it is 4 unless the
-- session says otherwise first: SET nodus.log_partitions = 8.
-- Source: libs/eventlog/event_log.hpp, docs/adr/0003-event-log.md.

CREATE TABLE log_settings (
  partitions integer NOT NULL CHECK (partitions BETWEEN 1 AND 64),
  range_size bigint NOT NULL DEFAULT 10000000 CHECK (range_size > 0),  -- positions in one range of `events`
  only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row)
);
INSERT INTO log_settings (partitions)
VALUES (coalesce(nullif(current_setting('nodus.log_partitions', true), ''), '4')::integer);

-- Append-only. (stream, version) is unique because the head row is locked by whoever appends; a table that is
-- partitioned by position cannot say so itself. at_us: microseconds since 1970 UTC, the writer's clock.
CREATE TABLE events (
  log_partition integer NOT NULL,
  position      bigint  NOT NULL,
  version       bigint  NOT NULL,
  at_us         bigint  NOT NULL,
  stream        text    COLLATE "C" NOT NULL,
  type          text    COLLATE "C" NOT NULL,
  payload       bytea   NOT NULL,
  PRIMARY KEY (log_partition, position)
) PARTITION BY RANGE (position);
CREATE INDEX events_by_stream ON events (stream, version);

-- One row a stream. fillfactor leaves room to rewrite the state in the same page without touching the index.
CREATE TABLE heads (
  stream        text    COLLATE "C" PRIMARY KEY CHECK (octet_length(stream) BETWEEN 1 AND 256),
  log_partition integer NOT NULL,
  version       bigint  NOT NULL DEFAULT 0,
  state_version integer NOT NULL DEFAULT 0,
  state         bytea   NOT NULL DEFAULT ''
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- A committed row always has an answer: a claim that came to nothing is deleted by the transaction that made it.
CREATE TABLE idempotency (
  key        text   COLLATE "C" PRIMARY KEY CHECK (octet_length(key) BETWEEN 1 AND 512),
  input_hash text   COLLATE "C" NOT NULL,
  answer     bytea,
  created_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 60);

-- What other services may read; granted by the bus.
CREATE VIEW published_events AS
  SELECT log_partition, position, stream, version, type, payload, at_us FROM events;

-- The advisory lock of one log partition, held to the end of the transaction. The table's oid tells services
-- that share a database apart. Whoever takes several takes them in ascending order.
CREATE FUNCTION log_lock_partition(p integer) RETURNS void LANGUAGE sql VOLATILE AS $$
  SELECT pg_advisory_xact_lock(('events'::regclass::oid::bigint - 2147483648)::integer, p)
$$;

-- Claims keys (sorted, distinct) and returns those that were accepted before. Waits for a transaction that holds
-- one of them. `ON CONFLICT` and the SELECT are two statements: the second one's snapshot sees who won.
CREATE FUNCTION log_claim(keys text[], hashes text[])
RETURNS TABLE (taken_key text, taken_hash text, taken_answer bytea) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  INSERT INTO idempotency (key, input_hash)
    SELECT k, h FROM unnest(keys, hashes) AS u (k, h) ON CONFLICT DO NOTHING;
  RETURN QUERY SELECT i.key, i.input_hash, i.answer FROM idempotency i
    WHERE i.key = ANY (keys) AND i.answer IS NOT NULL;
END $$;

-- Locks the heads of streams (sorted, distinct) and returns them. Without may_wait, heads that others hold are
-- left out. Existing rows are locked before missing ones are made, each in order: who waits for an existing row has
-- made none yet, so nobody can deadlock. A row that another made in between is left out, in either mode.
-- The row that a locking statement returns is the newest one; anything else is read by a later statement.
CREATE FUNCTION log_lock_heads(streams text[], parts integer[], may_wait boolean)
RETURNS TABLE (head_stream text, head_version bigint, head_state_version integer, head_state bytea)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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

-- Writes what a batch decided: heads, then answers, then (last, under the partitions' locks) events. Returns the
-- position before the first new one of each partition. e_offset counts 1, 2, 3 … within e_part. The last
-- position is read by a statement of its own after the locks: only its snapshot shows every earlier commit.
CREATE FUNCTION log_append(
  h_stream text[], h_version bigint[], h_state_version integer[], h_state bytea[],
  unused_streams text[],
  k_key text[], k_hash text[], k_answer bytea[], unused_keys text[],
  parts integer[], now_us bigint,
  e_part integer[], e_offset bigint[], e_stream text[], e_version bigint[], e_type text[], e_payload bytea[])
RETURNS TABLE (base_partition integer, base_position bigint) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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

-- Makes the ranges of `events` that hold the last position and the next `ahead` ones. Attaching, unlike CREATE …
-- PARTITION OF, takes no lock that readers or writers wait for.
CREATE FUNCTION log_ensure_ranges(ahead integer) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
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
SELECT log_ensure_ranges(2);
