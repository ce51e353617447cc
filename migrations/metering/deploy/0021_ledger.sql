-- Deploy metering:0021_ledger
BEGIN;
-- Credits as they were posted, by their idempotency keys: kept for ever. amount is what the balance changed by.
CREATE TABLE credits (
  org       text           COLLATE "C" NOT NULL,
  id        text           COLLATE "C" NOT NULL,
  kind      text           COLLATE "C" NOT NULL CHECK (kind IN ('Purchase', 'Grant', 'Refund', 'Adjustment')),
  amount    numeric(38,12) NOT NULL,
  uncovered numeric(38,12) NOT NULL DEFAULT 0 CHECK (uncovered >= 0), -- of a Refund: paid back though it was spent
  priority  integer        NOT NULL DEFAULT 5,
  expires_s bigint,
  author    text           NOT NULL,
  at_us     bigint         NOT NULL,
  PRIMARY KEY (org, id)
);
CREATE INDEX credits_by_time ON credits (org, at_us, id);
CREATE INDEX credits_by_id ON credits (id);  -- the purchase that a payment's refund is about
INSERT INTO credits (org, id, kind, amount, author, at_us)
  SELECT org, ref, 'Grant', amount, 'operator', at_us FROM postings WHERE kind = 'Credit';

-- The ledger. An entry is one event that moved money; (stream, version) names the event in the log (version 0: it was
-- posted before there was a ledger). Debits are above zero, credits below.
CREATE TABLE ledger_entries (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  org     text   COLLATE "C" NOT NULL,
  kind    text   COLLATE "C" NOT NULL,
  ref     text   COLLATE "C" NOT NULL,
  stream  text   COLLATE "C" NOT NULL,
  version bigint NOT NULL CHECK (version >= 0),
  at_us   bigint NOT NULL,
  UNIQUE (org, kind, ref)
);
CREATE TABLE ledger_lines (
  entry   bigint         NOT NULL,
  ordinal integer        NOT NULL,
  account text           COLLATE "C" NOT NULL CHECK (account IN ('CustomerCredit', 'Cash', 'GrantedCredit',
            'Adjustments', 'ComputeRevenue', 'StorageRevenue', 'ExpiredCredit', 'UncoveredRefunds', 'Rounding')),
  amount  numeric(38,12) NOT NULL,
  PRIMARY KEY (entry, ordinal)
);

-- A range of entries, sealed: digests holds the SHA-256 of each entry's canonical line, in order; hash chains them.
CREATE TABLE ledger_seals (
  n          bigint PRIMARY KEY CHECK (n > 0),
  from_entry bigint NOT NULL,
  to_entry   bigint NOT NULL CHECK (to_entry >= from_entry),
  entries    bigint NOT NULL CHECK (entries > 0),
  digests    bytea  NOT NULL CHECK (octet_length(digests) = 32 * entries),
  previous   bytea  NOT NULL,
  hash       bytea  NOT NULL CHECK (octet_length(hash) = 32),
  sealed_us  bigint NOT NULL
);

-- Locks of the ledger. 0: who posts (shared), and who asks for the last entry that is certain. 1: sealers.
CREATE FUNCTION ledger_lock(what integer, shared boolean) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  space integer := ('ledger_entries'::regclass::oid::bigint - 2147483648)::integer;
BEGIN
  IF shared THEN PERFORM pg_advisory_xact_lock_shared(space, what);
  ELSE PERFORM pg_advisory_xact_lock(space, what);
  END IF;
END $$;

CREATE FUNCTION ledger_before_entries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM ledger_lock(0, true);
  RETURN NULL;
END $$;
CREATE TRIGGER ledger_entries_in_order BEFORE INSERT ON ledger_entries
  EXECUTE FUNCTION ledger_before_entries();

-- All lines of an entry are written by one statement, and sum to zero.
CREATE FUNCTION ledger_check_lines() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER ledger_lines_balance AFTER INSERT ON ledger_lines REFERENCING NEW TABLE AS added
  EXECUTE FUNCTION ledger_check_lines();

-- What was posted before there was a ledger.
WITH e AS (
  INSERT INTO ledger_entries (org, kind, ref, stream, version, at_us)
    SELECT org, CASE kind WHEN 'Credit' THEN 'Grant' ELSE kind END, ref,
           CASE kind WHEN 'Credit' THEN 'account/' || org ELSE 'charge/' || split_part(ref, '/', 1) END, 0, at_us
      FROM postings ORDER BY at_us, org, kind DESC, ref RETURNING id, org, kind, ref)
INSERT INTO ledger_lines (entry, ordinal, account, amount)
  SELECT e.id, l.ordinal, l.account, l.amount
    FROM e JOIN postings p ON p.org = e.org AND p.ref = e.ref AND (p.kind = 'Charge') = (e.kind = 'Charge'),
         LATERAL (VALUES (1, 'CustomerCredit', -p.amount),
           (2, CASE p.kind WHEN 'Charge' THEN 'ComputeRevenue' ELSE 'GrantedCredit' END, p.amount))
         AS l (ordinal, account, amount);

-- Nothing is ever edited: corrections are new entries. The role that posts may not even try.
CREATE TRIGGER credits_are_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON credits EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_is_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_is_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_lines EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_is_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_seals EXECUTE FUNCTION refuse_change();
REVOKE UPDATE, DELETE, TRUNCATE ON credits, ledger_entries, ledger_lines, ledger_seals FROM CURRENT_USER;

-- What is hashed of an entry: a JSON array, its lines as ordinal:account:amount, joined by commas.
CREATE VIEW ledger_canonical AS
  SELECT e.id, json_build_array(e.id, e.org, e.kind, e.ref, e.stream, e.version, e.at_us,
           (SELECT string_agg(l.ordinal || ':' || l.account || ':' || l.amount, ',' ORDER BY l.ordinal)
              FROM ledger_lines l WHERE l.entry = e.id))::text AS line
    FROM ledger_entries e;

-- The last entry before which none can appear any more: waits for who is posting, at most as long as they take.
CREATE FUNCTION ledger_last_certain() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM ledger_lock(0, false);
  RETURN coalesce((SELECT max(id) FROM ledger_entries), 0);
END $$;

CREATE FUNCTION ledger_seal_hash(previous bytea, n bigint, from_entry bigint, to_entry bigint, entries bigint,
                                 digests bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
  SELECT sha256(previous || convert_to(format('%s|%s|%s|%s|', n, from_entry, to_entry, entries), 'UTF8') || digests)
$$;

-- Seals the next range up to an entry that ledger_last_certain() gave; answers how many entries it holds.
CREATE FUNCTION ledger_seal(up_to bigint, most integer, now_us bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
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

-- Every fault of a range of seals, from the tables alone; entry is null when the seal itself is at fault.
CREATE FUNCTION ledger_verify(from_seal bigint, to_seal bigint)
RETURNS TABLE (seal bigint, entry bigint, fault text) LANGUAGE sql STABLE AS $$
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
COMMIT;
