-- Deploy metering:0041_storage
BEGIN;
-- The restore points that are stored: of Sandboxes that hold no slot. The state itself is on the head row of
-- charge/<uid>.
CREATE TABLE stored (
  sandbox_uid  text           COLLATE "C" PRIMARY KEY,
  start        bigint         NOT NULL,             -- the one that was released last
  org          text           COLLATE "C" NOT NULL,
  project      text           COLLATE "C" NOT NULL,
  sandbox_name text           COLLATE "C" NOT NULL,
  rate         numeric(38,12) NOT NULL,
  from_s       bigint         NOT NULL,             -- metered until here
  era          bigint         NOT NULL,             -- of the account
  budget_era   bigint         NOT NULL,             -- of the project's spend
  waived       text           COLLATE "C" NOT NULL, -- why nobody pays it; empty: it is paid
  due          boolean        NOT NULL              -- its money may have ended, or have come
);
CREATE INDEX stored_of_org ON stored (org);
CREATE INDEX stored_of_project ON stored (project);
CREATE INDEX stored_due ON stored (org, sandbox_uid) WHERE due;

-- What was stored after a start, and by which version of the prices. Kept.
CREATE TABLE storage_facts (
  sandbox_uid   text   COLLATE "C" NOT NULL,
  start         bigint NOT NULL,
  org           text   COLLATE "C" NOT NULL,
  price_version text   NOT NULL,
  size_bytes    bigint NOT NULL,
  PRIMARY KEY (sandbox_uid, start)
);

ALTER TABLE bill_lines DROP CONSTRAINT bill_lines_kind_check;
ALTER TABLE bill_lines ADD CONSTRAINT bill_lines_kind_check
  CHECK (kind IN ('Starting', 'Running', 'Stopping', 'Storage'));

-- The place of a line of storage among the lines of its start: behind all others, by its first second (since 2020).
CREATE FUNCTION storage_ordinal(from_s bigint) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
  SELECT (from_s - 1577836800)::integer
$$;

-- What is stored is told beside what runs.
CREATE OR REPLACE FUNCTION open_lines(of_org text, at_s bigint)
  RETURNS TABLE (org text, project text, sandbox_uid text, sandbox_name text, start bigint, ordinal integer,
                 kind text, from_s bigint, to_s bigint, rate numeric, amount numeric, waived boolean, reason text)
  LANGUAGE sql STABLE AS $$
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

DROP VIEW finance.storage;
CREATE VIEW finance.storage AS
  SELECT l.organization, l.project, l.sandbox, l.sandbox_uid, l.began_at, l.ended_at,
         f.size_bytes * l.seconds * 0.000000000931322574615478515625 AS gib_seconds, l.amount_usd, f.size_bytes,
         l.usd_per_second, l.reason, l.is_open
    FROM finance.lines l LEFT JOIN storage_facts f ON f.sandbox_uid = l.sandbox_uid AND f.start = l.start
   WHERE l.kind = 'Storage';
COMMENT ON VIEW finance.storage IS
  'Storage of the newest restore points, while their Sandboxes hold no slot: lines, open ones until now.';
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

CREATE OR REPLACE VIEW finance.balances AS
  SELECT a.org AS organization, a.credits AS credits_usd, a.charged AS charged_usd,
         a.credits - a.charged - coalesce(o.amount, 0) AS balance_usd, a.held_funded + a.held_open AS held_usd,
         a.rate AS usd_per_second,
         a.open - (SELECT count(*) FROM stored t LEFT JOIN project_spend p ON p.project = t.project
                    WHERE t.org = a.org AND t.waived = '' AND t.era = a.era AND t.budget_era = p.era) AS running
    FROM accounts a LEFT JOIN (SELECT org,
         sum(amount) AS amount FROM finance.open_now() GROUP BY org) o ON o.org = a.org;
COMMENT ON COLUMN finance.balances.usd_per_second IS 'What runs and is stored costs, together';
COMMENT ON COLUMN finance.balances.charged_usd IS
  'All charges of starts that are over, and of storage until their next';
COMMENT ON COLUMN finance.balances.balance_usd IS
  'Credits less charges, less what open starts and restore points have come to';
COMMENT ON COLUMN finance.forecast.usd_per_second IS 'What runs and is stored costs, together';
COMMENT ON COLUMN finance.lines.kind IS 'Starting, Running or Stopping; Storage: while it held no slot';
COMMENT ON COLUMN finance.lines.usd_per_second IS
  'Rate of the start, frozen when it was funded; of storage, when the restore point was made';
COMMENT ON COLUMN finance.spend_by_day.kind IS 'Starting, Running, Stopping or Storage';
COMMENT ON COLUMN finance.invoice_lines.kind IS 'Starting, Running, Stopping or Storage';
DO $$ BEGIN
  IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'nodus_finance') THEN
    GRANT SELECT ON finance.storage TO nodus_finance;
  END IF;
END $$;
COMMIT;
