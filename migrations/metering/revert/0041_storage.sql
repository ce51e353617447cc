-- Revert metering:0041_storage
BEGIN;
DROP VIEW finance.storage;
CREATE VIEW finance.storage AS
  SELECT ''::text AS organization, ''::text AS project, ''::text AS sandbox, ''::text AS sandbox_uid,
         NULL::timestamptz AS began_at,
         NULL::timestamptz AS ended_at, 0::numeric AS gib_seconds, 0::numeric AS amount_usd WHERE false;
COMMENT ON VIEW finance.storage IS
  'Storage of restore points. Empty until storage is metered.';
COMMENT ON COLUMN finance.storage.organization IS 'Who pays';
COMMENT ON COLUMN finance.storage.project IS 'The project, as organization/name';
COMMENT ON COLUMN finance.storage.sandbox IS 'Name of the Sandbox';
COMMENT ON COLUMN finance.storage.sandbox_uid IS 'Its uid';
COMMENT ON COLUMN finance.storage.began_at IS 'First second, UTC';
COMMENT ON COLUMN finance.storage.ended_at IS 'End, UTC, exclusive';
COMMENT ON COLUMN finance.storage.gib_seconds IS 'GiB × seconds';
COMMENT ON COLUMN finance.storage.amount_usd IS 'What it costs, exact';

CREATE OR REPLACE VIEW finance.balances AS
  SELECT a.org AS organization, a.credits AS credits_usd, a.charged AS charged_usd,
         a.credits - a.charged - coalesce(o.amount, 0) AS balance_usd, a.held_funded + a.held_open AS held_usd,
         a.rate AS usd_per_second, a.open AS running
    FROM accounts a LEFT JOIN (SELECT org,
         sum(amount) AS amount FROM finance.open_now() GROUP BY org) o ON o.org = a.org;
COMMENT ON COLUMN finance.balances.usd_per_second IS 'What runs costs, together';
COMMENT ON COLUMN finance.balances.charged_usd IS 'All charges of starts that are over';
COMMENT ON COLUMN finance.balances.balance_usd IS 'Credits less charges, less what open starts have come to';
COMMENT ON COLUMN finance.forecast.usd_per_second IS 'What runs costs, together';
COMMENT ON COLUMN finance.lines.kind IS 'Starting, Running or Stopping';
COMMENT ON COLUMN finance.lines.usd_per_second IS 'Rate of the start, frozen when it was funded';
COMMENT ON COLUMN finance.spend_by_day.kind IS 'Starting, Running or Stopping';
COMMENT ON COLUMN finance.invoice_lines.kind IS 'Starting, Running or Stopping';
DO $$ BEGIN
  IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'nodus_finance') THEN
    GRANT SELECT ON finance.storage TO nodus_finance;
  END IF;
END $$;
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
$$;

DROP FUNCTION storage_ordinal(bigint);
ALTER TABLE bill_lines DROP CONSTRAINT bill_lines_kind_check;
ALTER TABLE bill_lines ADD CONSTRAINT bill_lines_kind_check CHECK (kind IN ('Starting', 'Running', 'Stopping'));
DROP TABLE storage_facts, stored;
COMMIT;
