-- Deploy metering:0040_causes
BEGIN;
-- What the platform started anew by itself: its Starting and Stopping are waived.
ALTER TABLE starts ADD COLUMN recovery boolean NOT NULL DEFAULT false;

-- Where the lines of an era of a project's spend ended, and whether a Budget ended them (else the balance did).
CREATE TABLE spend_ends (
  project   text    COLLATE "C" NOT NULL,
  era       bigint  NOT NULL,
  at_s      bigint  NOT NULL,
  by_budget boolean NOT NULL,
  PRIMARY KEY (project, era)
);

-- As domain/lines.cpp and domain/settle.cpp say, what ended the money of a line included.
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

COMMENT ON COLUMN finance.lines.reason IS
  'Charged, or why it was waived: MaxCostReached, BudgetExceeded, InsufficientCredits, PlatformRecovery';
COMMENT ON VIEW finance.waived IS
  'What was not charged: seconds after the money had ended, or of the platform''s own; and what they would have cost.';
COMMENT ON COLUMN finance.waived.reason IS
  'MaxCostReached, BudgetExceeded, InsufficientCredits or PlatformRecovery';
COMMIT;
