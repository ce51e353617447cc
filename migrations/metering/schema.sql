-- The whole schema of metering, written by dev/migrate --write-schema from the steps beside it.
SET check_function_bodies = false; -- functions come before the tables that they name

CREATE SCHEMA finance;

ALTER SCHEMA finance OWNER TO metering;

COMMENT ON SCHEMA finance IS 'What was spent, for dashboards. Amounts are USD, exact to 1e-12; times are UTC. See docs/finance.md.';

CREATE SCHEMA metering;

ALTER SCHEMA metering OWNER TO metering;

CREATE FUNCTION finance.open_now() RETURNS TABLE(org text, project text, sandbox_uid text, sandbox_name text, start bigint, ordinal integer, kind text, from_s bigint, to_s bigint, rate numeric, amount numeric, waived boolean, reason text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'metering'
    AS $$ SELECT * FROM open_lines(NULL, ceil(extract(epoch FROM now()))::bigint) $$;

ALTER FUNCTION finance.open_now() OWNER TO metering;

COMMENT ON FUNCTION finance.open_now() IS 'The lines of open starts until now';

CREATE FUNCTION metering.ledger_before_entries() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM ledger_lock(0, true);
  RETURN NULL;
END $$;

ALTER FUNCTION metering.ledger_before_entries() OWNER TO metering;

CREATE FUNCTION metering.ledger_check_lines() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
  wrong bigint;
BEGIN
  SELECT a.entry INTO wrong FROM added a GROUP BY a.entry
    HAVING sum(a.amount) <> 0 OR count(*) < 2
        OR count(*) <> (SELECT count(*) FROM ledger_lines l WHERE l.entry = a.entry) LIMIT 1;
  IF FOUND THEN
    RAISE 'ledger entry % does not balance, or is written in pieces', wrong USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END $$;

ALTER FUNCTION metering.ledger_check_lines() OWNER TO metering;

CREATE FUNCTION metering.ledger_last_certain() RETURNS bigint
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM ledger_lock(0, false);
  RETURN coalesce((SELECT max(id) FROM ledger_entries), 0);
END $$;

ALTER FUNCTION metering.ledger_last_certain() OWNER TO metering;

CREATE FUNCTION metering.ledger_lock(what integer, shared boolean) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
  space integer := ('ledger_entries'::regclass::oid::bigint - 2147483648)::integer;
BEGIN
  IF shared THEN PERFORM pg_advisory_xact_lock_shared(space, what);
  ELSE PERFORM pg_advisory_xact_lock(space, what);
  END IF;
END $$;

ALTER FUNCTION metering.ledger_lock(what integer, shared boolean) OWNER TO metering;

CREATE FUNCTION metering.ledger_seal(up_to bigint, most integer, now_us bigint) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
  last  ledger_seals;
  found record;
BEGIN
  PERFORM ledger_lock(1, false);
  SELECT * INTO last FROM ledger_seals ORDER BY n DESC LIMIT 1;
  SELECT count(*) AS entries, min(id) AS low, max(id) AS high,
         string_agg(sha256(convert_to(line, 'UTF8')), ''::bytea ORDER BY id) AS digests INTO found
    FROM (SELECT id, line FROM ledger_canonical WHERE id > coalesce(last.to_entry, 0) AND id <= up_to
           ORDER BY id LIMIT most) c;
  IF found.entries = 0 THEN
    RETURN 0;
  END IF;
  INSERT INTO ledger_seals VALUES (coalesce(last.n, 0) + 1, found.low, found.high, found.entries, found.digests,
    coalesce(last.hash, ''),
    ledger_seal_hash(coalesce(last.hash, ''), coalesce(last.n, 0) + 1, found.low, found.high, found.entries,
                     found.digests), now_us);
  RETURN found.entries;
END $$;

ALTER FUNCTION metering.ledger_seal(up_to bigint, most integer, now_us bigint) OWNER TO metering;

CREATE FUNCTION metering.ledger_seal_hash(previous bytea, n bigint, from_entry bigint, to_entry bigint, entries bigint, digests bytea) RETURNS bytea
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT sha256(previous || convert_to(format('%s|%s|%s|%s|', n, from_entry, to_entry, entries), 'UTF8') || digests)
$$;

ALTER FUNCTION metering.ledger_seal_hash(previous bytea, n bigint, from_entry bigint, to_entry bigint, entries bigint, digests bytea) OWNER TO metering;

CREATE FUNCTION metering.ledger_verify(from_seal bigint, to_seal bigint) RETURNS TABLE(seal bigint, entry bigint, fault text)
    LANGUAGE sql STABLE
    AS $$
  WITH seals AS (
    SELECT s.*, lag(s.hash) OVER w AS before_hash, lag(s.n) OVER w AS before_n, lag(s.to_entry) OVER w AS before_entry
      FROM ledger_seals s WHERE s.n BETWEEN from_seal - 1 AND to_seal WINDOW w AS (ORDER BY s.n)),
  wanted AS (SELECT * FROM seals WHERE n >= from_seal),
  now AS (
    SELECT w.n, c.id, sha256(convert_to(c.line, 'UTF8')) AS digest,
           row_number() OVER (PARTITION BY w.n ORDER BY c.id) AS place
      FROM wanted w JOIN ledger_canonical c ON c.id BETWEEN w.from_entry AND w.to_entry)
  SELECT w.n, NULL::bigint, 'the seal before it is missing' FROM wanted w WHERE w.n > 1 AND w.before_n IS NULL
  UNION ALL
  SELECT w.n, NULL, 'it does not follow from the seal before it' FROM wanted w
   WHERE w.previous <> coalesce(w.before_hash, '') OR w.from_entry <= coalesce(w.before_entry, 0)
  UNION ALL
  SELECT w.n, NULL, 'the seal was changed' FROM wanted w
   WHERE w.hash <> ledger_seal_hash(w.previous, w.n, w.from_entry, w.to_entry, w.entries, w.digests)
  UNION ALL
  SELECT w.n, NULL, 'it sealed ' || w.entries || ' entries, and there are ' || coalesce(c.found, 0)
    FROM wanted w LEFT JOIN (SELECT n, count(*) AS found FROM now GROUP BY n) c ON c.n = w.n
   WHERE w.entries <> coalesce(c.found, 0)
  UNION ALL
  SELECT now.n, now.id, 'the entry or one of its lines was changed'
    FROM now JOIN wanted w ON w.n = now.n
   WHERE substr(w.digests, (now.place - 1)::integer * 32 + 1, 32) <> now.digest
     AND position(now.digest IN w.digests) = 0
$$;

ALTER FUNCTION metering.ledger_verify(from_seal bigint, to_seal bigint) OWNER TO metering;

CREATE FUNCTION metering.log_append(h_stream text[], h_version bigint[], h_state_version integer[], h_state bytea[], unused_streams text[], k_key text[], k_hash text[], k_answer bytea[], unused_keys text[], parts integer[], now_us bigint, e_part integer[], e_offset bigint[], e_stream text[], e_version bigint[], e_type text[], e_payload bytea[]) RETURNS TABLE(base_partition integer, base_position bigint)
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

ALTER FUNCTION metering.log_append(h_stream text[], h_version bigint[], h_state_version integer[], h_state bytea[], unused_streams text[], k_key text[], k_hash text[], k_answer bytea[], unused_keys text[], parts integer[], now_us bigint, e_part integer[], e_offset bigint[], e_stream text[], e_version bigint[], e_type text[], e_payload bytea[]) OWNER TO metering;

CREATE FUNCTION metering.log_claim(keys text[], hashes text[]) RETURNS TABLE(taken_key text, taken_hash text, taken_answer bytea)
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

ALTER FUNCTION metering.log_claim(keys text[], hashes text[]) OWNER TO metering;

CREATE FUNCTION metering.log_ensure_ranges(ahead integer) RETURNS integer
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

ALTER FUNCTION metering.log_ensure_ranges(ahead integer) OWNER TO metering;

CREATE FUNCTION metering.log_lock_heads(streams text[], parts integer[], may_wait boolean) RETURNS TABLE(head_stream text, head_version bigint, head_state_version integer, head_state bytea)
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

ALTER FUNCTION metering.log_lock_heads(streams text[], parts integer[], may_wait boolean) OWNER TO metering;

CREATE FUNCTION metering.log_lock_partition(p integer) RETURNS void
    LANGUAGE sql
    AS $$
  SELECT pg_advisory_xact_lock(('events'::regclass::oid::bigint - 2147483648)::integer, p)
$$;

ALTER FUNCTION metering.log_lock_partition(p integer) OWNER TO metering;

CREATE FUNCTION metering.log_take_heads(streams text[], parts integer[], may_wait boolean) RETURNS TABLE(head_stream text, head_version bigint, head_state_version integer, head_state bytea, head_place tid)
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

ALTER FUNCTION metering.log_take_heads(streams text[], parts integer[], may_wait boolean) OWNER TO metering;

CREATE FUNCTION metering.log_write(h_place tid[], h_version bigint[], h_state_version integer[], h_state bytea[], unused_streams text[], k_key text[], k_hash text[], k_answer bytea[], unused_keys text[], parts integer[], now_us bigint, e_part integer[], e_offset bigint[], e_stream text[], e_version bigint[], e_type text[], e_payload bytea[]) RETURNS TABLE(base_partition integer, base_position bigint)
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

ALTER FUNCTION metering.log_write(h_place tid[], h_version bigint[], h_state_version integer[], h_state bytea[], unused_streams text[], k_key text[], k_hash text[], k_answer bytea[], unused_keys text[], parts integer[], now_us bigint, e_part integer[], e_offset bigint[], e_stream text[], e_version bigint[], e_type text[], e_payload bytea[]) OWNER TO metering;

CREATE FUNCTION metering.open_lines(of_org text, at_s bigint) RETURNS TABLE(org text, project text, sandbox_uid text, sandbox_name text, start bigint, ordinal integer, kind text, from_s bigint, to_s bigint, rate numeric, amount numeric, waived boolean, reason text)
    LANGUAGE sql STABLE
    AS $$
  WITH spans AS (
    SELECT s.*, greatest(s.from_s, open_lines.at_s) AS end_s,
           CASE WHEN b.by_budget OR b.at_s < e.at_s THEN b.at_s END AS full_s,
           least(s.paid_until_s, e.at_s, b.at_s, CASE WHEN s.era = a.era AND a.rate > 0 THEN
             least(div(a.credits - a.charged - a.pending - a.held_funded + a.base, a.rate), 9e15)::bigint END)
             AS broke_s
      FROM starts s JOIN accounts a ON a.org = s.org LEFT JOIN exhaustions e ON e.org = s.org AND e.era = s.era
      LEFT JOIN spend_ends b ON b.project = s.project AND b.era = s.budget_era AND s.budgeted
     WHERE s.open AND (of_org IS NULL OR s.org = of_org)),
  stops AS (
    SELECT p.*, least(p.cap_s, p.broke_s) AS paid_s,
           least(greatest(coalesce((p.stopping_us + 999999) / 1000000, p.end_s), p.from_s), p.end_s) AS stop_s
      FROM spans p),
  marks AS (
    SELECT t.*, least(greatest(coalesce((t.started_us + 999999) / 1000000, t.stop_s), t.from_s), t.stop_s) AS run_s
      FROM stops t)
  SELECT m.org, m.project, m.sandbox_uid, m.sandbox_name, m.start,
         (row_number() OVER (PARTITION BY m.sandbox_uid ORDER BY l.a))::integer,
         k.kind, l.a, l.b, m.rate, CASE WHEN p.waived THEN 0 ELSE m.rate * (l.b - l.a) END, p.waived,
         CASE WHEN NOT p.waived THEN 'Charged' WHEN k.free THEN 'PlatformRecovery'
              WHEN m.cap_s = m.paid_s THEN 'MaxCostReached' WHEN m.full_s = m.paid_s THEN 'BudgetExceeded'
              ELSE 'InsufficientCredits' END
    FROM marks m
   CROSS JOIN LATERAL (VALUES ('Starting', m.from_s, m.run_s, m.recovery), ('Running', m.run_s, m.stop_s, false),
                              ('Stopping', m.stop_s, m.end_s, m.recovery)) AS k (kind, a, b, free)
   CROSS JOIN LATERAL (VALUES (CASE WHEN k.free THEN k.a ELSE least(greatest(coalesce(m.paid_s, k.b), k.a), k.b) END))
     AS c (at)
   CROSS JOIN LATERAL (VALUES (k.a, c.at, false), (c.at, k.b, true)) AS p (a, b, waived)
   CROSS JOIN LATERAL generate_series(p.a / 86400, (p.b - 1) / 86400) AS d (day)
   CROSS JOIN LATERAL (VALUES (greatest(p.a, d.day * 86400), least(p.b, (d.day + 1) * 86400))) AS l (a, b)
   WHERE p.a < p.b
  UNION ALL
  SELECT s.org, s.project, s.sandbox_uid, s.sandbox_name, s.start, storage_ordinal(l.a), 'Storage', l.a, l.b, s.rate,
         CASE WHEN p.waived THEN 0 ELSE s.rate * (l.b - l.a) END, p.waived,
         CASE WHEN NOT p.waived THEN 'Charged' WHEN s.waived <> '' THEN s.waived
              WHEN s.full_s = s.paid_s THEN 'BudgetExceeded' ELSE 'InsufficientCredits' END
    FROM (
    SELECT t.*, greatest(t.from_s, open_lines.at_s) AS end_s,
           CASE WHEN b.by_budget OR b.at_s < e.at_s THEN b.at_s END AS full_s,
           CASE WHEN t.waived <> '' THEN t.from_s ELSE
             least(e.at_s, b.at_s, CASE WHEN t.era = a.era AND a.rate > 0 THEN
               least(div(a.credits - a.charged - a.pending - a.held_funded + a.base, a.rate), 9e15)::bigint END)
           END AS paid_s
      FROM stored t JOIN accounts a ON a.org = t.org LEFT JOIN exhaustions e ON e.org = t.org AND e.era = t.era
      LEFT JOIN spend_ends b ON b.project = t.project AND b.era = t.budget_era
     WHERE of_org IS NULL OR t.org = of_org) s
   CROSS JOIN LATERAL (VALUES (least(greatest(coalesce(s.paid_s, s.end_s), s.from_s), s.end_s))) AS c (at)
   CROSS JOIN LATERAL (VALUES (s.from_s, c.at, false), (c.at, s.end_s, true)) AS p (a, b, waived)
   CROSS JOIN LATERAL generate_series(p.a / 86400, (p.b - 1) / 86400) AS d (day)
   CROSS JOIN LATERAL (VALUES (greatest(p.a, d.day * 86400), least(p.b, (d.day + 1) * 86400))) AS l (a, b)
   WHERE p.a < p.b
$$;

ALTER FUNCTION metering.open_lines(of_org text, at_s bigint) OWNER TO metering;

CREATE FUNCTION metering.refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  RAISE '% is append-only: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;

ALTER FUNCTION metering.refuse_change() OWNER TO metering;

CREATE FUNCTION metering.storage_ordinal(from_s bigint) RETURNS integer
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT (from_s - 1577836800)::integer
$$;

ALTER FUNCTION metering.storage_ordinal(from_s bigint) OWNER TO metering;

CREATE TABLE metering.accounts (
    org text NOT NULL COLLATE pg_catalog."C",
    credits numeric(38,12) NOT NULL,
    charged numeric(38,12) NOT NULL,
    pending numeric(38,12) NOT NULL,
    held_funded numeric(38,12) NOT NULL,
    held_open numeric(38,12) NOT NULL,
    rate numeric(38,12) NOT NULL,
    base numeric(38,12) NOT NULL,
    funded bigint NOT NULL,
    open bigint NOT NULL,
    era bigint NOT NULL
)
WITH (fillfactor='60');

ALTER TABLE metering.accounts OWNER TO metering;

CREATE TABLE metering.project_spend (
    project text NOT NULL COLLATE pg_catalog."C",
    org text NOT NULL COLLATE pg_catalog."C",
    spent numeric(38,12) NOT NULL,
    pending numeric(38,12) NOT NULL,
    base numeric(38,12) NOT NULL,
    month_s bigint NOT NULL,
    month_spent numeric(38,12) NOT NULL,
    month_pending numeric(38,12) NOT NULL,
    held_funded numeric(38,12) NOT NULL,
    held_open numeric(38,12) NOT NULL,
    rate numeric(38,12) NOT NULL,
    funded bigint NOT NULL,
    open bigint NOT NULL,
    era bigint NOT NULL
)
WITH (fillfactor='60');

ALTER TABLE metering.project_spend OWNER TO metering;

CREATE TABLE metering.stored (
    sandbox_uid text NOT NULL COLLATE pg_catalog."C",
    start bigint NOT NULL,
    org text NOT NULL COLLATE pg_catalog."C",
    project text NOT NULL COLLATE pg_catalog."C",
    sandbox_name text NOT NULL COLLATE pg_catalog."C",
    rate numeric(38,12) NOT NULL,
    from_s bigint NOT NULL,
    era bigint NOT NULL,
    budget_era bigint NOT NULL,
    waived text NOT NULL COLLATE pg_catalog."C",
    due boolean NOT NULL
);

ALTER TABLE metering.stored OWNER TO metering;

CREATE VIEW finance.balances AS
 SELECT a.org AS organization,
    a.credits AS credits_usd,
    a.charged AS charged_usd,
    ((a.credits - a.charged) - COALESCE(o.amount, (0)::numeric)) AS balance_usd,
    (a.held_funded + a.held_open) AS held_usd,
    a.rate AS usd_per_second,
    (a.open - ( SELECT count(*) AS count
           FROM (metering.stored t
             LEFT JOIN metering.project_spend p ON ((p.project = t.project)))
          WHERE ((t.org = a.org) AND (t.waived = ''::text) AND (t.era = a.era) AND (t.budget_era = p.era)))) AS running
   FROM (metering.accounts a
     LEFT JOIN ( SELECT open_now.org,
            sum(open_now.amount) AS amount
           FROM finance.open_now() open_now(org, project, sandbox_uid, sandbox_name, start, ordinal, kind, from_s, to_s, rate, amount, waived, reason)
          GROUP BY open_now.org) o ON ((o.org = a.org)));

ALTER TABLE finance.balances OWNER TO metering;

COMMENT ON VIEW finance.balances IS 'Balance of each organization, now.';

COMMENT ON COLUMN finance.balances.organization IS 'Who pays';

COMMENT ON COLUMN finance.balances.credits_usd IS 'All credits so far';

COMMENT ON COLUMN finance.balances.charged_usd IS 'All charges of starts that are over, and of storage until their next';

COMMENT ON COLUMN finance.balances.balance_usd IS 'Credits less charges, less what open starts and restore points have come to';

COMMENT ON COLUMN finance.balances.held_usd IS 'Set aside, see holds';

COMMENT ON COLUMN finance.balances.usd_per_second IS 'What runs and is stored costs, together';

COMMENT ON COLUMN finance.balances.running IS 'Open starts that are charged';

CREATE TABLE metering.bill_days (
    org text NOT NULL COLLATE pg_catalog."C",
    day integer NOT NULL,
    project text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    late_in integer DEFAULT 0 NOT NULL,
    seconds bigint NOT NULL,
    amount numeric(38,12) NOT NULL,
    lines bigint NOT NULL
)
WITH (fillfactor='60');

ALTER TABLE metering.bill_days OWNER TO metering;

CREATE VIEW finance.spend_by_day AS
 SELECT d.org AS organization,
    d.project,
    ('1970-01-01'::date + d.day) AS day,
    d.kind,
    d.reason,
    (sum(d.seconds))::bigint AS seconds,
    sum(d.amount) AS amount_usd
   FROM ( SELECT bill_days.org,
            bill_days.project,
            bill_days.day,
            bill_days.kind,
            bill_days.reason,
            bill_days.seconds,
            bill_days.amount
           FROM metering.bill_days
        UNION ALL
         SELECT open_now.org,
            open_now.project,
            ((open_now.from_s / 86400))::integer AS int4,
            open_now.kind,
            open_now.reason,
            (open_now.to_s - open_now.from_s),
            open_now.amount
           FROM finance.open_now() open_now(org, project, sandbox_uid, sandbox_name, start, ordinal, kind, from_s, to_s, rate, amount, waived, reason)) d
  GROUP BY d.org, d.project, d.day, d.kind, d.reason;

ALTER TABLE finance.spend_by_day OWNER TO metering;

COMMENT ON VIEW finance.spend_by_day IS 'Spend by day (UTC), from sums that are kept as lines are posted: fast however many lines there are.';

COMMENT ON COLUMN finance.spend_by_day.organization IS 'Who pays';

COMMENT ON COLUMN finance.spend_by_day.project IS 'The project, as organization/name';

COMMENT ON COLUMN finance.spend_by_day.day IS 'Day, UTC';

COMMENT ON COLUMN finance.spend_by_day.kind IS 'Starting, Running, Stopping or Storage';

COMMENT ON COLUMN finance.spend_by_day.reason IS 'Charged, or why it was waived';

COMMENT ON COLUMN finance.spend_by_day.seconds IS 'Seconds of all Sandboxes';

COMMENT ON COLUMN finance.spend_by_day.amount_usd IS 'What they cost, exact';

CREATE VIEW finance.spend_by_project AS
 SELECT spend_by_day.organization,
    spend_by_day.project,
    (date_trunc('month'::text, (spend_by_day.day)::timestamp with time zone))::date AS month,
    (sum(spend_by_day.seconds) FILTER (WHERE (spend_by_day.reason = 'Charged'::text)))::bigint AS charged_seconds,
    (sum(spend_by_day.seconds) FILTER (WHERE (spend_by_day.reason <> 'Charged'::text)))::bigint AS waived_seconds,
    sum(spend_by_day.amount_usd) AS amount_usd
   FROM finance.spend_by_day
  GROUP BY spend_by_day.organization, spend_by_day.project, (date_trunc('month'::text, (spend_by_day.day)::timestamp with time zone));

ALTER TABLE finance.spend_by_project OWNER TO metering;

COMMENT ON VIEW finance.spend_by_project IS 'Spend by project and month (UTC).';

COMMENT ON COLUMN finance.spend_by_project.organization IS 'Who pays';

COMMENT ON COLUMN finance.spend_by_project.project IS 'The project, as organization/name';

COMMENT ON COLUMN finance.spend_by_project.month IS 'First day of the month, UTC';

COMMENT ON COLUMN finance.spend_by_project.charged_seconds IS 'Seconds that were charged';

COMMENT ON COLUMN finance.spend_by_project.waived_seconds IS 'Seconds that were not';

COMMENT ON COLUMN finance.spend_by_project.amount_usd IS 'Spend, exact';

CREATE VIEW finance.forecast AS
 SELECT s.organization,
    s.month,
    s.month_to_date_usd,
    s.usd_per_second,
    (s.month_to_date_usd + GREATEST((0)::numeric, LEAST((s.usd_per_second * (s.seconds_left)::numeric), s.balance_usd))) AS forecast_usd
   FROM ( SELECT b.organization,
            (date_trunc('month'::text, (now() AT TIME ZONE 'UTC'::text)))::date AS month,
            b.usd_per_second,
            b.balance_usd,
            COALESCE(p.amount_usd, (0)::numeric) AS month_to_date_usd,
            (EXTRACT(epoch FROM ((date_trunc('month'::text, (now() AT TIME ZONE 'UTC'::text)) + '1 mon'::interval) - (now() AT TIME ZONE 'UTC'::text))))::bigint AS seconds_left
           FROM (finance.balances b
             LEFT JOIN ( SELECT spend_by_project.organization,
                    spend_by_project.month,
                    sum(spend_by_project.amount_usd) AS amount_usd
                   FROM finance.spend_by_project
                  GROUP BY spend_by_project.organization, spend_by_project.month) p ON (((p.organization = b.organization) AND (p.month = (date_trunc('month'::text, (now() AT TIME ZONE 'UTC'::text)))::date))))) s;

ALTER TABLE finance.forecast OWNER TO metering;

COMMENT ON VIEW finance.forecast IS 'What the present month (UTC) comes to if what runs goes on, as long as the balance lasts.';

COMMENT ON COLUMN finance.forecast.organization IS 'Who pays';

COMMENT ON COLUMN finance.forecast.month IS 'First day of the present month, UTC';

COMMENT ON COLUMN finance.forecast.month_to_date_usd IS 'Spend so far';

COMMENT ON COLUMN finance.forecast.usd_per_second IS 'What runs and is stored costs, together';

COMMENT ON COLUMN finance.forecast.forecast_usd IS 'Spend so far and usd_per_second until the month''s end, at most the balance';

CREATE TABLE metering.starts (
    sandbox_uid text NOT NULL COLLATE pg_catalog."C",
    start bigint NOT NULL,
    org text NOT NULL COLLATE pg_catalog."C",
    project text NOT NULL COLLATE pg_catalog."C",
    sandbox_name text NOT NULL COLLATE pg_catalog."C",
    open boolean NOT NULL,
    rate numeric(38,12) NOT NULL,
    hold numeric(38,12) NOT NULL,
    started_us bigint,
    stopping_us bigint,
    from_s bigint NOT NULL,
    cap_s bigint,
    cap_due_s bigint,
    era bigint NOT NULL,
    capped boolean NOT NULL,
    stop_ordered boolean NOT NULL,
    paid_until_s bigint,
    budgeted boolean DEFAULT false NOT NULL,
    budget_era bigint DEFAULT 0 NOT NULL,
    recovery boolean DEFAULT false NOT NULL
);

ALTER TABLE metering.starts OWNER TO metering;

CREATE VIEW finance.holds AS
 SELECT starts.org AS organization,
    starts.project,
    starts.sandbox_name AS sandbox,
    starts.sandbox_uid,
    starts.start,
    starts.open AS is_running,
    starts.hold AS hold_usd,
    starts.rate AS usd_per_second
   FROM metering.starts;

ALTER TABLE finance.holds OWNER TO metering;

COMMENT ON VIEW finance.holds IS 'Money that is set aside for starts that are funded or run.';

COMMENT ON COLUMN finance.holds.organization IS 'Who pays';

COMMENT ON COLUMN finance.holds.project IS 'The project, as organization/name';

COMMENT ON COLUMN finance.holds.sandbox IS 'Name of the Sandbox';

COMMENT ON COLUMN finance.holds.sandbox_uid IS 'Its uid';

COMMENT ON COLUMN finance.holds.start IS 'Which of its starts';

COMMENT ON COLUMN finance.holds.is_running IS 'It has a slot; else it is funded and waits';

COMMENT ON COLUMN finance.holds.hold_usd IS 'Set aside: rate × the hold''s seconds';

COMMENT ON COLUMN finance.holds.usd_per_second IS 'Rate of the start';

CREATE TABLE metering.invoice_lines (
    number text NOT NULL COLLATE pg_catalog."C",
    ordinal integer NOT NULL,
    type text NOT NULL,
    month integer NOT NULL,
    project text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL,
    reason text NOT NULL,
    seconds bigint NOT NULL,
    amount numeric(38,12) NOT NULL,
    CONSTRAINT invoice_lines_type_check CHECK ((type = ANY (ARRAY['Usage'::text, 'Correction'::text, 'Rounding'::text])))
);

ALTER TABLE metering.invoice_lines OWNER TO metering;

CREATE TABLE metering.invoices (
    number text NOT NULL COLLATE pg_catalog."C",
    issuer text NOT NULL COLLATE pg_catalog."C",
    sequence bigint NOT NULL,
    org text NOT NULL COLLATE pg_catalog."C",
    month integer NOT NULL,
    issued_us bigint NOT NULL,
    proven_to_s bigint NOT NULL,
    total numeric(38,12) NOT NULL,
    CONSTRAINT invoices_total_check CHECK ((total = round(total, 2)))
);

ALTER TABLE metering.invoices OWNER TO metering;

CREATE VIEW finance.invoice_lines AS
 SELECT i.number,
    i.org AS organization,
    l.ordinal,
    l.type,
    to_date((l.month)::text, 'YYYYMM'::text) AS month,
    l.project,
    l.kind,
    l.reason,
    l.seconds,
    l.amount AS amount_usd
   FROM (metering.invoice_lines l
     JOIN metering.invoices i USING (number));

ALTER TABLE finance.invoice_lines OWNER TO metering;

COMMENT ON VIEW finance.invoice_lines IS 'Lines of invoices; with the rounding they add up to the total.';

COMMENT ON COLUMN finance.invoice_lines.number IS 'Of the invoice';

COMMENT ON COLUMN finance.invoice_lines.organization IS 'Who pays';

COMMENT ON COLUMN finance.invoice_lines.ordinal IS '1, 2, 3 … within the invoice';

COMMENT ON COLUMN finance.invoice_lines.type IS 'Usage, Correction (of an earlier month) or Rounding';

COMMENT ON COLUMN finance.invoice_lines.month IS 'First day of the month of the seconds, UTC';

COMMENT ON COLUMN finance.invoice_lines.project IS 'The project, as organization/name; empty: rounding';

COMMENT ON COLUMN finance.invoice_lines.kind IS 'Starting, Running, Stopping or Storage';

COMMENT ON COLUMN finance.invoice_lines.reason IS 'Charged, or why it was waived';

COMMENT ON COLUMN finance.invoice_lines.seconds IS 'Whole seconds; negative: taken back';

COMMENT ON COLUMN finance.invoice_lines.amount_usd IS 'Exact';

CREATE VIEW finance.invoices AS
 SELECT invoices.number,
    invoices.issuer,
    invoices.org AS organization,
    to_date((invoices.month)::text, 'YYYYMM'::text) AS month,
    to_timestamp((((invoices.issued_us)::numeric / 1000000.0))::double precision) AS issued_at,
    to_timestamp((invoices.proven_to_s)::double precision) AS open_until,
    invoices.total AS total_usd
   FROM metering.invoices;

ALTER TABLE finance.invoices OWNER TO metering;

COMMENT ON VIEW finance.invoices IS 'Invoices, one a month (UTC) of an organization.';

COMMENT ON COLUMN finance.invoices.number IS 'Gapless for each issuer';

COMMENT ON COLUMN finance.invoices.issuer IS 'Who issued it';

COMMENT ON COLUMN finance.invoices.organization IS 'Who pays';

COMMENT ON COLUMN finance.invoices.month IS 'First day of the month, UTC';

COMMENT ON COLUMN finance.invoices.issued_at IS 'When the month was closed';

COMMENT ON COLUMN finance.invoices.open_until IS 'Intervals that were open are invoiced up to here';

COMMENT ON COLUMN finance.invoices.total_usd IS 'Whole cents';

CREATE TABLE metering.bill_lines (
    sandbox_uid text NOT NULL COLLATE pg_catalog."C",
    start bigint NOT NULL,
    ordinal integer NOT NULL,
    org text NOT NULL COLLATE pg_catalog."C",
    project text NOT NULL COLLATE pg_catalog."C",
    sandbox_name text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL,
    from_s bigint NOT NULL,
    to_s bigint NOT NULL,
    rate numeric(38,12) NOT NULL,
    amount numeric(38,12) NOT NULL,
    waived boolean NOT NULL,
    reason text NOT NULL COLLATE pg_catalog."C",
    late_in integer,
    CONSTRAINT bill_lines_check CHECK ((to_s > from_s)),
    CONSTRAINT bill_lines_check1 CHECK ((amount =
CASE
    WHEN waived THEN (0)::numeric
    ELSE (rate * ((to_s - from_s))::numeric)
END)),
    CONSTRAINT bill_lines_kind_check CHECK ((kind = ANY (ARRAY['Starting'::text, 'Running'::text, 'Stopping'::text, 'Storage'::text]))),
    CONSTRAINT bill_lines_reason CHECK ((waived = (reason <> 'Charged'::text))),
    CONSTRAINT bill_lines_within_a_day CHECK (((from_s / 86400) = ((to_s - 1) / 86400)))
);

ALTER TABLE metering.bill_lines OWNER TO metering;

CREATE VIEW finance.lines AS
 SELECT b.org AS organization,
    b.project,
    b.sandbox_name AS sandbox,
    b.sandbox_uid,
    b.start,
    b.kind,
    to_timestamp((b.from_s)::double precision) AS began_at,
    to_timestamp((b.to_s)::double precision) AS ended_at,
    (b.to_s - b.from_s) AS seconds,
    b.rate AS usd_per_second,
    b.amount AS amount_usd,
    b.reason,
    false AS is_open
   FROM metering.bill_lines b
UNION ALL
 SELECT o.org AS organization,
    o.project,
    o.sandbox_name AS sandbox,
    o.sandbox_uid,
    o.start,
    o.kind,
    to_timestamp((o.from_s)::double precision) AS began_at,
    to_timestamp((o.to_s)::double precision) AS ended_at,
    (o.to_s - o.from_s) AS seconds,
    o.rate AS usd_per_second,
    o.amount AS amount_usd,
    o.reason,
    true AS is_open
   FROM finance.open_now() o(org, project, sandbox_uid, sandbox_name, start, ordinal, kind, from_s, to_s, rate, amount, waived, reason);

ALTER TABLE finance.lines OWNER TO metering;

COMMENT ON VIEW finance.lines IS 'Every line of every bill: posted ones, and what open starts have come to until now. No line spans midnight (UTC).';

COMMENT ON COLUMN finance.lines.organization IS 'Who pays';

COMMENT ON COLUMN finance.lines.project IS 'The project, as organization/name';

COMMENT ON COLUMN finance.lines.sandbox IS 'Name of the Sandbox';

COMMENT ON COLUMN finance.lines.sandbox_uid IS 'Its uid: a name may be used again after a delete';

COMMENT ON COLUMN finance.lines.start IS 'Which of its starts: 1, 2, 3 …';

COMMENT ON COLUMN finance.lines.kind IS 'Starting, Running or Stopping; Storage: while it held no slot';

COMMENT ON COLUMN finance.lines.began_at IS 'First second, UTC, inclusive';

COMMENT ON COLUMN finance.lines.ended_at IS 'End, UTC, exclusive';

COMMENT ON COLUMN finance.lines.seconds IS 'Whole seconds';

COMMENT ON COLUMN finance.lines.usd_per_second IS 'Rate of the start, frozen when it was funded; of storage, when the restore point was made';

COMMENT ON COLUMN finance.lines.amount_usd IS 'Rate × seconds, exact; 0 when waived';

COMMENT ON COLUMN finance.lines.reason IS 'Charged, or why it was waived: MaxCostReached, BudgetExceeded, InsufficientCredits, PlatformRecovery';

COMMENT ON COLUMN finance.lines.is_open IS 'Of a start that is not over: grows until it is';

CREATE VIEW finance.spend_by_hour AS
 SELECT l.organization,
    l.project,
    to_timestamp(((h.hour * 3600))::double precision) AS hour,
    l.reason,
    sum(h.seconds) AS seconds,
    sum(
        CASE
            WHEN (l.reason = 'Charged'::text) THEN (l.usd_per_second * (h.seconds)::numeric)
            ELSE (0)::numeric
        END) AS amount_usd
   FROM (finance.lines l
     CROSS JOIN LATERAL ( SELECT n.n AS hour,
            (LEAST((EXTRACT(epoch FROM l.ended_at))::bigint, ((n.n + 1) * 3600)) - GREATEST((EXTRACT(epoch FROM l.began_at))::bigint, (n.n * 3600))) AS seconds
           FROM generate_series(((EXTRACT(epoch FROM l.began_at))::bigint / 3600), (((EXTRACT(epoch FROM l.ended_at))::bigint - 1) / 3600)) n(n)) h)
  GROUP BY l.organization, l.project, h.hour, l.reason;

ALTER TABLE finance.spend_by_hour OWNER TO metering;

COMMENT ON VIEW finance.spend_by_hour IS 'Spend by hour. Ask for an organization and few days: hours are made from lines.';

COMMENT ON COLUMN finance.spend_by_hour.organization IS 'Who pays';

COMMENT ON COLUMN finance.spend_by_hour.project IS 'The project, as organization/name';

COMMENT ON COLUMN finance.spend_by_hour.hour IS 'Begin of the hour, UTC';

COMMENT ON COLUMN finance.spend_by_hour.reason IS 'Charged, or why it was waived';

COMMENT ON COLUMN finance.spend_by_hour.seconds IS 'Seconds of all Sandboxes';

COMMENT ON COLUMN finance.spend_by_hour.amount_usd IS 'What they cost, exact';

CREATE VIEW finance.spend_by_reason AS
 SELECT spend_by_day.organization,
    (date_trunc('month'::text, (spend_by_day.day)::timestamp with time zone))::date AS month,
    spend_by_day.reason,
    (sum(spend_by_day.seconds))::bigint AS seconds,
    sum(spend_by_day.amount_usd) AS amount_usd
   FROM finance.spend_by_day
  GROUP BY spend_by_day.organization, (date_trunc('month'::text, (spend_by_day.day)::timestamp with time zone)), spend_by_day.reason;

ALTER TABLE finance.spend_by_reason OWNER TO metering;

COMMENT ON VIEW finance.spend_by_reason IS 'Seconds and spend by reason and month (UTC): what was charged, and what was waived for what.';

COMMENT ON COLUMN finance.spend_by_reason.organization IS 'Who pays';

COMMENT ON COLUMN finance.spend_by_reason.month IS 'First day of the month, UTC';

COMMENT ON COLUMN finance.spend_by_reason.reason IS 'Charged, or why it was waived';

COMMENT ON COLUMN finance.spend_by_reason.seconds IS 'Seconds of all Sandboxes';

COMMENT ON COLUMN finance.spend_by_reason.amount_usd IS 'What they cost, exact; 0 for what was waived';

CREATE VIEW finance.spend_by_sandbox AS
 SELECT lines.organization,
    lines.project,
    min(lines.sandbox) AS sandbox,
    lines.sandbox_uid,
    (date_trunc('month'::text, (lines.began_at AT TIME ZONE 'UTC'::text)))::date AS month,
    (sum(lines.seconds) FILTER (WHERE (lines.reason = 'Charged'::text)))::bigint AS charged_seconds,
    (sum(lines.seconds) FILTER (WHERE (lines.reason <> 'Charged'::text)))::bigint AS waived_seconds,
    sum(lines.amount_usd) AS amount_usd
   FROM finance.lines
  GROUP BY lines.organization, lines.project, lines.sandbox_uid, (date_trunc('month'::text, (lines.began_at AT TIME ZONE 'UTC'::text)));

ALTER TABLE finance.spend_by_sandbox OWNER TO metering;

COMMENT ON VIEW finance.spend_by_sandbox IS 'Spend by Sandbox and month (UTC).';

COMMENT ON COLUMN finance.spend_by_sandbox.organization IS 'Who pays';

COMMENT ON COLUMN finance.spend_by_sandbox.project IS 'The project, as organization/name';

COMMENT ON COLUMN finance.spend_by_sandbox.sandbox IS 'Name of the Sandbox';

COMMENT ON COLUMN finance.spend_by_sandbox.sandbox_uid IS 'Its uid';

COMMENT ON COLUMN finance.spend_by_sandbox.month IS 'First day of the month, UTC';

COMMENT ON COLUMN finance.spend_by_sandbox.charged_seconds IS 'Seconds that were charged';

COMMENT ON COLUMN finance.spend_by_sandbox.waived_seconds IS 'Seconds that were not';

COMMENT ON COLUMN finance.spend_by_sandbox.amount_usd IS 'Spend, exact';

CREATE TABLE metering.storage_facts (
    sandbox_uid text NOT NULL COLLATE pg_catalog."C",
    start bigint NOT NULL,
    org text NOT NULL COLLATE pg_catalog."C",
    price_version text NOT NULL,
    size_bytes bigint NOT NULL
);

ALTER TABLE metering.storage_facts OWNER TO metering;

CREATE VIEW finance.storage AS
 SELECT l.organization,
    l.project,
    l.sandbox,
    l.sandbox_uid,
    l.began_at,
    l.ended_at,
    (((f.size_bytes * l.seconds))::numeric * 0.000000000931322574615478515625) AS gib_seconds,
    l.amount_usd,
    f.size_bytes,
    l.usd_per_second,
    l.reason,
    l.is_open
   FROM (finance.lines l
     LEFT JOIN metering.storage_facts f ON (((f.sandbox_uid = l.sandbox_uid) AND (f.start = l.start))))
  WHERE (l.kind = 'Storage'::text);

ALTER TABLE finance.storage OWNER TO metering;

COMMENT ON VIEW finance.storage IS 'Storage of the newest restore points, while their Sandboxes hold no slot: lines, open ones until now.';

COMMENT ON COLUMN finance.storage.organization IS 'Who pays';

COMMENT ON COLUMN finance.storage.project IS 'The project, as organization/name';

COMMENT ON COLUMN finance.storage.sandbox IS 'Name of the Sandbox';

COMMENT ON COLUMN finance.storage.sandbox_uid IS 'Its uid';

COMMENT ON COLUMN finance.storage.began_at IS 'First second, UTC';

COMMENT ON COLUMN finance.storage.ended_at IS 'End, UTC, exclusive';

COMMENT ON COLUMN finance.storage.gib_seconds IS 'GiB × seconds, exact';

COMMENT ON COLUMN finance.storage.amount_usd IS 'What it costs, exact; 0 when waived';

COMMENT ON COLUMN finance.storage.size_bytes IS 'Size of the restore point';

COMMENT ON COLUMN finance.storage.usd_per_second IS 'Rate, frozen when the restore point was made';

COMMENT ON COLUMN finance.storage.reason IS 'Charged, or why it was waived: BudgetExceeded, InsufficientCredits';

COMMENT ON COLUMN finance.storage.is_open IS 'It is still stored: grows until the next start or the delete';

CREATE VIEW finance.waived AS
 SELECT lines.organization,
    lines.project,
    lines.sandbox,
    lines.sandbox_uid,
    lines.start,
    lines.reason,
    lines.began_at,
    lines.ended_at,
    lines.seconds,
    (lines.usd_per_second * (lines.seconds)::numeric) AS waived_usd
   FROM finance.lines
  WHERE (lines.reason <> 'Charged'::text);

ALTER TABLE finance.waived OWNER TO metering;

COMMENT ON VIEW finance.waived IS 'What was not charged: seconds after the money had ended, or of the platform''s own; and what they would have cost.';

COMMENT ON COLUMN finance.waived.organization IS 'Who pays';

COMMENT ON COLUMN finance.waived.project IS 'The project, as organization/name';

COMMENT ON COLUMN finance.waived.sandbox IS 'Name of the Sandbox';

COMMENT ON COLUMN finance.waived.sandbox_uid IS 'Its uid';

COMMENT ON COLUMN finance.waived.start IS 'Which of its starts';

COMMENT ON COLUMN finance.waived.reason IS 'MaxCostReached, BudgetExceeded, InsufficientCredits or PlatformRecovery';

COMMENT ON COLUMN finance.waived.began_at IS 'First second, UTC';

COMMENT ON COLUMN finance.waived.ended_at IS 'End, UTC, exclusive';

COMMENT ON COLUMN finance.waived.seconds IS 'Whole seconds';

COMMENT ON COLUMN finance.waived.waived_usd IS 'Rate × seconds, which nobody pays';

CREATE TABLE metering.balance_deadlines (
    org text NOT NULL COLLATE pg_catalog."C",
    due_us bigint NOT NULL
)
WITH (fillfactor='60');

ALTER TABLE metering.balance_deadlines OWNER TO metering;

CREATE TABLE metering.billing_periods (
    org text NOT NULL COLLATE pg_catalog."C",
    closed_to_s bigint NOT NULL,
    next_month integer NOT NULL
);

ALTER TABLE metering.billing_periods OWNER TO metering;

CREATE TABLE metering.brake_changes (
    id bigint NOT NULL,
    engaged boolean NOT NULL,
    reason text NOT NULL,
    author text NOT NULL,
    at_us bigint NOT NULL
);

ALTER TABLE metering.brake_changes OWNER TO metering;

ALTER TABLE metering.brake_changes ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME metering.brake_changes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE metering.budget_changes (
    "position" bigint NOT NULL,
    project text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL,
    object text NOT NULL,
    at_us bigint NOT NULL,
    was text,
    CONSTRAINT budget_changes_type_check CHECK ((type = ANY (ARRAY['ADDED'::text, 'MODIFIED'::text, 'DELETED'::text])))
);

ALTER TABLE metering.budget_changes OWNER TO metering;

ALTER TABLE metering.budget_changes ALTER COLUMN "position" ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME metering.budget_changes_position_seq
    START WITH 2
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE metering.budget_deadlines (
    project text NOT NULL COLLATE pg_catalog."C",
    org text NOT NULL COLLATE pg_catalog."C",
    due_us bigint NOT NULL
)
WITH (fillfactor='60');

ALTER TABLE metering.budget_deadlines OWNER TO metering;

CREATE TABLE metering.budget_feeds (
    project text NOT NULL COLLATE pg_catalog."C",
    last bigint NOT NULL,
    floor bigint DEFAULT 1 NOT NULL
);

ALTER TABLE metering.budget_feeds OWNER TO metering;

CREATE TABLE metering.budget_versions (
    project text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL
);

ALTER TABLE metering.budget_versions OWNER TO metering;

CREATE TABLE metering.consumer_offsets (
    topic text NOT NULL,
    log_partition integer NOT NULL,
    "position" bigint DEFAULT 0 NOT NULL,
    cursor text DEFAULT ''::text NOT NULL
);

ALTER TABLE metering.consumer_offsets OWNER TO metering;

CREATE TABLE metering.credits (
    org text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    amount numeric(38,12) NOT NULL,
    uncovered numeric(38,12) DEFAULT 0 NOT NULL,
    priority integer DEFAULT 5 NOT NULL,
    expires_s bigint,
    author text NOT NULL,
    at_us bigint NOT NULL,
    CONSTRAINT credits_kind_check CHECK ((kind = ANY (ARRAY['Purchase'::text, 'Grant'::text, 'Refund'::text, 'Adjustment'::text]))),
    CONSTRAINT credits_uncovered_check CHECK ((uncovered >= (0)::numeric))
);

ALTER TABLE metering.credits OWNER TO metering;

CREATE TABLE metering.estimates (
    org text NOT NULL COLLATE pg_catalog."C",
    in_month integer NOT NULL,
    sandbox_uid text NOT NULL COLLATE pg_catalog."C",
    start bigint NOT NULL,
    ordinal integer NOT NULL,
    project text NOT NULL COLLATE pg_catalog."C",
    sandbox_name text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL,
    from_s bigint NOT NULL,
    to_s bigint NOT NULL,
    rate numeric(38,12) NOT NULL,
    amount numeric(38,12) NOT NULL,
    waived boolean NOT NULL,
    reason text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT estimates_check CHECK ((to_s > from_s))
);

ALTER TABLE metering.estimates OWNER TO metering;

CREATE TABLE metering.events (
    log_partition integer NOT NULL,
    "position" bigint NOT NULL,
    version bigint NOT NULL,
    at_us bigint NOT NULL,
    stream text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    payload bytea NOT NULL
)
PARTITION BY RANGE ("position");

ALTER TABLE metering.events OWNER TO metering;

CREATE TABLE metering.events_0 (
    log_partition integer NOT NULL,
    "position" bigint NOT NULL,
    version bigint NOT NULL,
    at_us bigint NOT NULL,
    stream text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    payload bytea NOT NULL
);

ALTER TABLE metering.events_0 OWNER TO metering;

CREATE TABLE metering.events_1 (
    log_partition integer NOT NULL,
    "position" bigint NOT NULL,
    version bigint NOT NULL,
    at_us bigint NOT NULL,
    stream text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    payload bytea NOT NULL
);

ALTER TABLE metering.events_1 OWNER TO metering;

CREATE TABLE metering.events_2 (
    log_partition integer NOT NULL,
    "position" bigint NOT NULL,
    version bigint NOT NULL,
    at_us bigint NOT NULL,
    stream text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    payload bytea NOT NULL
);

ALTER TABLE metering.events_2 OWNER TO metering;

CREATE TABLE metering.exhaustions (
    org text NOT NULL COLLATE pg_catalog."C",
    era bigint NOT NULL,
    at_s bigint NOT NULL
);

ALTER TABLE metering.exhaustions OWNER TO metering;

CREATE TABLE metering.heads (
    stream text NOT NULL COLLATE pg_catalog."C",
    log_partition integer NOT NULL,
    version bigint DEFAULT 0 NOT NULL,
    state_version integer DEFAULT 0 NOT NULL,
    state bytea DEFAULT '\x'::bytea NOT NULL,
    CONSTRAINT heads_stream_check CHECK (((octet_length(stream) >= 1) AND (octet_length(stream) <= 256)))
)
WITH (fillfactor='60', autovacuum_vacuum_scale_factor='0.05', autovacuum_analyze_scale_factor='0.05');

ALTER TABLE metering.heads OWNER TO metering;

CREATE TABLE metering.idempotency (
    key text NOT NULL COLLATE pg_catalog."C",
    input_hash text NOT NULL COLLATE pg_catalog."C",
    answer bytea,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT idempotency_key_check CHECK (((octet_length(key) >= 1) AND (octet_length(key) <= 512)))
)
WITH (fillfactor='60');

ALTER TABLE metering.idempotency OWNER TO metering;

CREATE TABLE metering.invoice_counters (
    issuer text NOT NULL COLLATE pg_catalog."C",
    last bigint NOT NULL
);

ALTER TABLE metering.invoice_counters OWNER TO metering;

CREATE TABLE metering.ledger_entries (
    id bigint NOT NULL,
    org text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    ref text NOT NULL COLLATE pg_catalog."C",
    stream text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    at_us bigint NOT NULL,
    CONSTRAINT ledger_entries_version_check CHECK ((version >= 0))
);

ALTER TABLE metering.ledger_entries OWNER TO metering;

CREATE TABLE metering.ledger_lines (
    entry bigint NOT NULL,
    ordinal integer NOT NULL,
    account text NOT NULL COLLATE pg_catalog."C",
    amount numeric(38,12) NOT NULL,
    CONSTRAINT ledger_lines_account_check CHECK ((account = ANY (ARRAY['CustomerCredit'::text, 'Cash'::text, 'GrantedCredit'::text, 'Adjustments'::text, 'ComputeRevenue'::text, 'StorageRevenue'::text, 'ExpiredCredit'::text, 'UncoveredRefunds'::text, 'Rounding'::text])))
);

ALTER TABLE metering.ledger_lines OWNER TO metering;

CREATE VIEW metering.ledger_canonical AS
 SELECT e.id,
    (json_build_array(e.id, e.org, e.kind, e.ref, e.stream, e.version, e.at_us, ( SELECT string_agg(((((l.ordinal || ':'::text) || l.account) || ':'::text) || l.amount), ','::text ORDER BY l.ordinal) AS string_agg
           FROM metering.ledger_lines l
          WHERE (l.entry = e.id))))::text AS line
   FROM metering.ledger_entries e;

ALTER TABLE metering.ledger_canonical OWNER TO metering;

ALTER TABLE metering.ledger_entries ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME metering.ledger_entries_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE metering.ledger_seals (
    n bigint NOT NULL,
    from_entry bigint NOT NULL,
    to_entry bigint NOT NULL,
    entries bigint NOT NULL,
    digests bytea NOT NULL,
    previous bytea NOT NULL,
    hash bytea NOT NULL,
    sealed_us bigint NOT NULL,
    CONSTRAINT ledger_seals_check CHECK ((to_entry >= from_entry)),
    CONSTRAINT ledger_seals_check1 CHECK ((octet_length(digests) = (32 * entries))),
    CONSTRAINT ledger_seals_entries_check CHECK ((entries > 0)),
    CONSTRAINT ledger_seals_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT ledger_seals_n_check CHECK ((n > 0))
);

ALTER TABLE metering.ledger_seals OWNER TO metering;

CREATE TABLE metering.log_settings (
    partitions integer NOT NULL,
    range_size bigint DEFAULT 10000000 NOT NULL,
    only_row boolean DEFAULT true NOT NULL,
    CONSTRAINT log_settings_only_row_check CHECK (only_row),
    CONSTRAINT log_settings_partitions_check CHECK (((partitions >= 1) AND (partitions <= 64))),
    CONSTRAINT log_settings_range_size_check CHECK ((range_size > 0))
);

ALTER TABLE metering.log_settings OWNER TO metering;

CREATE TABLE metering.machine_prices (
    version text NOT NULL COLLATE pg_catalog."C",
    machine_type text NOT NULL COLLATE pg_catalog."C",
    per_s numeric(38,12) NOT NULL,
    CONSTRAINT machine_prices_per_s_check CHECK ((per_s >= (0)::numeric))
);

ALTER TABLE metering.machine_prices OWNER TO metering;

CREATE TABLE metering.parked (
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

ALTER TABLE metering.parked OWNER TO metering;

ALTER TABLE metering.parked ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME metering.parked_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE metering.postings (
    org text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    ref text NOT NULL COLLATE pg_catalog."C",
    amount numeric(38,12) NOT NULL,
    at_us bigint NOT NULL,
    CONSTRAINT postings_kind_check CHECK ((kind = ANY (ARRAY['Credit'::text, 'Charge'::text, 'Expiry'::text, 'Storage'::text])))
);

ALTER TABLE metering.postings OWNER TO metering;

CREATE TABLE metering.prices (
    version text NOT NULL COLLATE pg_catalog."C",
    effective_us bigint NOT NULL,
    cpu_per_vcpu_s numeric(38,12) NOT NULL,
    memory_per_gib_s numeric(38,12) NOT NULL,
    disk_per_gib_s numeric(38,12) NOT NULL,
    published_us bigint NOT NULL,
    storage_per_gib_s numeric(38,12) DEFAULT 0 NOT NULL,
    CONSTRAINT prices_cpu_per_vcpu_s_check CHECK ((cpu_per_vcpu_s >= (0)::numeric)),
    CONSTRAINT prices_disk_per_gib_s_check CHECK ((disk_per_gib_s >= (0)::numeric)),
    CONSTRAINT prices_memory_per_gib_s_check CHECK ((memory_per_gib_s >= (0)::numeric)),
    CONSTRAINT prices_storage_per_gib_s_check CHECK ((storage_per_gib_s >= (0)::numeric))
);

ALTER TABLE metering.prices OWNER TO metering;

CREATE VIEW metering.published_events AS
 SELECT events.log_partition,
    events."position",
    events.stream,
    events.version,
    events.type,
    events.payload,
    events.at_us
   FROM metering.events;

ALTER TABLE metering.published_events OWNER TO metering;

CREATE TABLE metering.relay_offsets (
    log_partition integer NOT NULL,
    "position" bigint NOT NULL
);

ALTER TABLE metering.relay_offsets OWNER TO metering;

CREATE TABLE metering.spend_ends (
    project text NOT NULL COLLATE pg_catalog."C",
    era bigint NOT NULL,
    at_s bigint NOT NULL,
    by_budget boolean NOT NULL
);

ALTER TABLE metering.spend_ends OWNER TO metering;

CREATE TABLE metering.start_facts (
    sandbox_uid text NOT NULL COLLATE pg_catalog."C",
    start bigint NOT NULL,
    org text NOT NULL COLLATE pg_catalog."C",
    price_version text NOT NULL,
    labels jsonb NOT NULL,
    cpu_milli bigint NOT NULL,
    memory_bytes bigint NOT NULL,
    disk_bytes bigint NOT NULL,
    machine_type text NOT NULL
);

ALTER TABLE metering.start_facts OWNER TO metering;

ALTER TABLE ONLY metering.events ATTACH PARTITION metering.events_0 FOR VALUES FROM ('1') TO ('10000001');

ALTER TABLE ONLY metering.events ATTACH PARTITION metering.events_1 FOR VALUES FROM ('10000001') TO ('20000001');

ALTER TABLE ONLY metering.events ATTACH PARTITION metering.events_2 FOR VALUES FROM ('20000001') TO ('30000001');

ALTER TABLE ONLY metering.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (org);

ALTER TABLE ONLY metering.balance_deadlines
    ADD CONSTRAINT balance_deadlines_pkey PRIMARY KEY (org);

ALTER TABLE ONLY metering.bill_days
    ADD CONSTRAINT bill_days_pkey PRIMARY KEY (org, day, project, kind, reason, late_in);

ALTER TABLE ONLY metering.bill_lines
    ADD CONSTRAINT bill_lines_pkey PRIMARY KEY (sandbox_uid, start, ordinal);

ALTER TABLE ONLY metering.billing_periods
    ADD CONSTRAINT billing_periods_pkey PRIMARY KEY (org);

ALTER TABLE ONLY metering.brake_changes
    ADD CONSTRAINT brake_changes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY metering.budget_changes
    ADD CONSTRAINT budget_changes_pkey PRIMARY KEY ("position");

ALTER TABLE ONLY metering.budget_deadlines
    ADD CONSTRAINT budget_deadlines_pkey PRIMARY KEY (project);

ALTER TABLE ONLY metering.budget_feeds
    ADD CONSTRAINT budget_feeds_pkey PRIMARY KEY (project);

ALTER TABLE ONLY metering.budget_versions
    ADD CONSTRAINT budget_versions_pkey PRIMARY KEY (project, name);

ALTER TABLE ONLY metering.consumer_offsets
    ADD CONSTRAINT consumer_offsets_pkey PRIMARY KEY (topic, log_partition);

ALTER TABLE ONLY metering.credits
    ADD CONSTRAINT credits_pkey PRIMARY KEY (org, id);

ALTER TABLE ONLY metering.estimates
    ADD CONSTRAINT estimates_pkey PRIMARY KEY (org, in_month, from_s, sandbox_uid, start, ordinal);

ALTER TABLE ONLY metering.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (log_partition, "position");

ALTER TABLE ONLY metering.events_0
    ADD CONSTRAINT events_0_pkey PRIMARY KEY (log_partition, "position");

ALTER TABLE ONLY metering.events_1
    ADD CONSTRAINT events_1_pkey PRIMARY KEY (log_partition, "position");

ALTER TABLE ONLY metering.events_2
    ADD CONSTRAINT events_2_pkey PRIMARY KEY (log_partition, "position");

ALTER TABLE ONLY metering.exhaustions
    ADD CONSTRAINT exhaustions_pkey PRIMARY KEY (org, era);

ALTER TABLE ONLY metering.heads
    ADD CONSTRAINT heads_pkey PRIMARY KEY (stream);

ALTER TABLE ONLY metering.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (key);

ALTER TABLE ONLY metering.invoice_counters
    ADD CONSTRAINT invoice_counters_pkey PRIMARY KEY (issuer);

ALTER TABLE ONLY metering.invoice_lines
    ADD CONSTRAINT invoice_lines_pkey PRIMARY KEY (number, ordinal);

ALTER TABLE ONLY metering.invoices
    ADD CONSTRAINT invoices_issuer_sequence_key UNIQUE (issuer, sequence);

ALTER TABLE ONLY metering.invoices
    ADD CONSTRAINT invoices_org_month_key UNIQUE (org, month);

ALTER TABLE ONLY metering.invoices
    ADD CONSTRAINT invoices_pkey PRIMARY KEY (number);

ALTER TABLE ONLY metering.ledger_entries
    ADD CONSTRAINT ledger_entries_org_kind_ref_key UNIQUE (org, kind, ref);

ALTER TABLE ONLY metering.ledger_entries
    ADD CONSTRAINT ledger_entries_pkey PRIMARY KEY (id);

ALTER TABLE ONLY metering.ledger_lines
    ADD CONSTRAINT ledger_lines_pkey PRIMARY KEY (entry, ordinal);

ALTER TABLE ONLY metering.ledger_seals
    ADD CONSTRAINT ledger_seals_pkey PRIMARY KEY (n);

ALTER TABLE ONLY metering.log_settings
    ADD CONSTRAINT log_settings_pkey PRIMARY KEY (only_row);

ALTER TABLE ONLY metering.machine_prices
    ADD CONSTRAINT machine_prices_pkey PRIMARY KEY (version, machine_type);

ALTER TABLE ONLY metering.parked
    ADD CONSTRAINT parked_pkey PRIMARY KEY (id);

ALTER TABLE ONLY metering.parked
    ADD CONSTRAINT parked_topic_log_partition_position_key UNIQUE (topic, log_partition, "position");

ALTER TABLE ONLY metering.postings
    ADD CONSTRAINT postings_pkey PRIMARY KEY (org, kind, ref);

ALTER TABLE ONLY metering.prices
    ADD CONSTRAINT prices_effective_us_key UNIQUE (effective_us);

ALTER TABLE ONLY metering.prices
    ADD CONSTRAINT prices_pkey PRIMARY KEY (version);

ALTER TABLE ONLY metering.project_spend
    ADD CONSTRAINT project_spend_pkey PRIMARY KEY (project);

ALTER TABLE ONLY metering.relay_offsets
    ADD CONSTRAINT relay_offsets_pkey PRIMARY KEY (log_partition);

ALTER TABLE ONLY metering.spend_ends
    ADD CONSTRAINT spend_ends_pkey PRIMARY KEY (project, era);

ALTER TABLE ONLY metering.start_facts
    ADD CONSTRAINT start_facts_pkey PRIMARY KEY (sandbox_uid, start);

ALTER TABLE ONLY metering.starts
    ADD CONSTRAINT starts_pkey PRIMARY KEY (sandbox_uid);

ALTER TABLE ONLY metering.storage_facts
    ADD CONSTRAINT storage_facts_pkey PRIMARY KEY (sandbox_uid, start);

ALTER TABLE ONLY metering.stored
    ADD CONSTRAINT stored_pkey PRIMARY KEY (sandbox_uid);

CREATE INDEX balance_deadlines_due ON metering.balance_deadlines USING btree (due_us);

CREATE INDEX bill_late ON metering.bill_lines USING btree (org, late_in, from_s, sandbox_uid, start, ordinal) WHERE (late_in IS NOT NULL);

CREATE INDEX bill_of_org ON metering.bill_lines USING btree (org, from_s, sandbox_uid, start, ordinal);

CREATE INDEX bill_of_project ON metering.bill_lines USING btree (project, from_s, sandbox_uid, start, ordinal);

CREATE INDEX budget_changes_of_project ON metering.budget_changes USING btree (project, "position");

CREATE INDEX budget_deadlines_due ON metering.budget_deadlines USING btree (due_us);

CREATE INDEX credits_by_id ON metering.credits USING btree (id);

CREATE INDEX credits_by_time ON metering.credits USING btree (org, at_us, id);

CREATE INDEX events_by_stream ON ONLY metering.events USING btree (stream, version);

CREATE INDEX events_0_stream_version_idx ON metering.events_0 USING btree (stream, version);

CREATE INDEX events_1_stream_version_idx ON metering.events_1 USING btree (stream, version);

CREATE INDEX events_2_stream_version_idx ON metering.events_2 USING btree (stream, version);

CREATE INDEX parked_stream ON metering.parked USING btree (topic, stream, "position");

CREATE INDEX starts_cap_due ON metering.starts USING btree (cap_due_s) WHERE (cap_due_s IS NOT NULL);

CREATE INDEX starts_of_org ON metering.starts USING btree (org, sandbox_uid) WHERE open;

CREATE INDEX starts_of_project ON metering.starts USING btree (project, sandbox_uid) WHERE open;

CREATE INDEX stored_due ON metering.stored USING btree (org, sandbox_uid) WHERE due;

CREATE INDEX stored_of_org ON metering.stored USING btree (org);

CREATE INDEX stored_of_project ON metering.stored USING btree (project);

ALTER INDEX metering.events_pkey ATTACH PARTITION metering.events_0_pkey;

ALTER INDEX metering.events_by_stream ATTACH PARTITION metering.events_0_stream_version_idx;

ALTER INDEX metering.events_pkey ATTACH PARTITION metering.events_1_pkey;

ALTER INDEX metering.events_by_stream ATTACH PARTITION metering.events_1_stream_version_idx;

ALTER INDEX metering.events_pkey ATTACH PARTITION metering.events_2_pkey;

ALTER INDEX metering.events_by_stream ATTACH PARTITION metering.events_2_stream_version_idx;

CREATE TRIGGER credits_are_kept BEFORE DELETE OR UPDATE OR TRUNCATE ON metering.credits FOR EACH STATEMENT EXECUTE FUNCTION metering.refuse_change();

CREATE TRIGGER estimates_are_kept BEFORE DELETE OR UPDATE OR TRUNCATE ON metering.estimates FOR EACH STATEMENT EXECUTE FUNCTION metering.refuse_change();

CREATE TRIGGER invoice_lines_are_kept BEFORE DELETE OR UPDATE OR TRUNCATE ON metering.invoice_lines FOR EACH STATEMENT EXECUTE FUNCTION metering.refuse_change();

CREATE TRIGGER invoices_are_kept BEFORE DELETE OR UPDATE OR TRUNCATE ON metering.invoices FOR EACH STATEMENT EXECUTE FUNCTION metering.refuse_change();

CREATE TRIGGER ledger_entries_in_order BEFORE INSERT ON metering.ledger_entries FOR EACH STATEMENT EXECUTE FUNCTION metering.ledger_before_entries();

CREATE TRIGGER ledger_is_kept BEFORE DELETE OR UPDATE OR TRUNCATE ON metering.ledger_entries FOR EACH STATEMENT EXECUTE FUNCTION metering.refuse_change();

CREATE TRIGGER ledger_is_kept BEFORE DELETE OR UPDATE OR TRUNCATE ON metering.ledger_lines FOR EACH STATEMENT EXECUTE FUNCTION metering.refuse_change();

CREATE TRIGGER ledger_is_kept BEFORE DELETE OR UPDATE OR TRUNCATE ON metering.ledger_seals FOR EACH STATEMENT EXECUTE FUNCTION metering.refuse_change();

CREATE TRIGGER ledger_lines_balance AFTER INSERT ON metering.ledger_lines REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION metering.ledger_check_lines();

CREATE TRIGGER prices_are_immutable BEFORE DELETE OR UPDATE OR TRUNCATE ON metering.machine_prices FOR EACH STATEMENT EXECUTE FUNCTION metering.refuse_change();

CREATE TRIGGER prices_are_immutable BEFORE DELETE OR UPDATE OR TRUNCATE ON metering.prices FOR EACH STATEMENT EXECUTE FUNCTION metering.refuse_change();

ALTER TABLE ONLY metering.invoice_lines
    ADD CONSTRAINT invoice_lines_number_fkey FOREIGN KEY (number) REFERENCES metering.invoices(number);

ALTER TABLE ONLY metering.machine_prices
    ADD CONSTRAINT machine_prices_version_fkey FOREIGN KEY (version) REFERENCES metering.prices(version);

GRANT USAGE ON SCHEMA finance TO nodus_finance;

GRANT USAGE ON SCHEMA metering TO lifecycle;
GRANT USAGE ON SCHEMA metering TO scheduler;

REVOKE ALL ON FUNCTION finance.open_now() FROM PUBLIC;
GRANT ALL ON FUNCTION finance.open_now() TO nodus_finance;

GRANT SELECT ON TABLE finance.balances TO nodus_finance;

GRANT SELECT ON TABLE finance.spend_by_day TO nodus_finance;

GRANT SELECT ON TABLE finance.spend_by_project TO nodus_finance;

GRANT SELECT ON TABLE finance.forecast TO nodus_finance;

GRANT SELECT ON TABLE finance.holds TO nodus_finance;

GRANT SELECT ON TABLE finance.invoice_lines TO nodus_finance;

GRANT SELECT ON TABLE finance.invoices TO nodus_finance;

GRANT SELECT ON TABLE finance.lines TO nodus_finance;

GRANT SELECT ON TABLE finance.spend_by_hour TO nodus_finance;

GRANT SELECT ON TABLE finance.spend_by_reason TO nodus_finance;

GRANT SELECT ON TABLE finance.spend_by_sandbox TO nodus_finance;

GRANT SELECT ON TABLE finance.storage TO nodus_finance;

GRANT SELECT ON TABLE finance.waived TO nodus_finance;

REVOKE ALL ON TABLE metering.credits FROM metering;
GRANT SELECT,INSERT,REFERENCES,TRIGGER ON TABLE metering.credits TO metering;

REVOKE ALL ON TABLE metering.ledger_entries FROM metering;
GRANT SELECT,INSERT,REFERENCES,TRIGGER ON TABLE metering.ledger_entries TO metering;

REVOKE ALL ON TABLE metering.ledger_lines FROM metering;
GRANT SELECT,INSERT,REFERENCES,TRIGGER ON TABLE metering.ledger_lines TO metering;

REVOKE ALL ON TABLE metering.ledger_seals FROM metering;
GRANT SELECT,INSERT,REFERENCES,TRIGGER ON TABLE metering.ledger_seals TO metering;

GRANT SELECT ON TABLE metering.published_events TO lifecycle;
GRANT SELECT ON TABLE metering.published_events TO scheduler;

