-- Heads are written where they were locked, without a second search by name. Run after event_log.sql. Programs of the
-- release before go on with log_lock_heads and log_append; the next release drops those.

-- Locks the heads of streams (sorted, distinct) and returns them, with the place of each row: it stays there until
-- this transaction is over or writes it. Without may_wait, heads that others hold are left out. Existing rows are
-- locked before missing ones are made, each in order: who waits for an existing row has made none yet, so nobody can
-- deadlock. A row that another made in between is left out, in either mode.
-- The row that a locking statement returns is the newest one; anything else is read by a later statement.
CREATE FUNCTION log_take_heads(streams text[], parts integer[], may_wait boolean)
RETURNS TABLE (
  head_stream text, head_version bigint, head_state_version integer, head_state bytea, head_place tid)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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

-- Writes what a batch decided: heads, at the places that log_take_heads gave (one that is not there any more is a
-- fault), then answers, then (last, under the partitions' locks) events. Returns the position before the first new one
-- of each partition. e_offset counts 1, 2, 3 … within e_part. The last position is read by a statement of its own
-- after the locks: only its snapshot shows every earlier commit.
CREATE FUNCTION log_write(
  h_place tid[], h_version bigint[], h_state_version integer[], h_state bytea[],
  unused_streams text[],
  k_key text[], k_hash text[], k_answer bytea[], unused_keys text[],
  parts integer[], now_us bigint,
  e_part integer[], e_offset bigint[], e_stream text[], e_version bigint[], e_type text[], e_payload bytea[])
RETURNS TABLE (base_partition integer, base_position bigint) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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
