-- Deploy metering:0030_bill
BEGIN;
-- A line of the bill lies within one UTC day, and so within one month: what was posted across midnight is cut.
CREATE TEMP TABLE cut ON COMMIT DROP AS
  SELECT b.sandbox_uid, b.start,
         (row_number() OVER (PARTITION BY b.sandbox_uid, b.start ORDER BY b.ordinal, d.day))::integer AS ordinal,
         b.org, b.project, b.sandbox_name, b.kind, greatest(b.from_s, d.day * 86400) AS from_s,
         least(b.to_s, (d.day + 1) * 86400) AS to_s, b.rate, b.waived
    FROM bill_lines b CROSS JOIN LATERAL generate_series(b.from_s / 86400, (b.to_s - 1) / 86400) AS d (day);
DELETE FROM bill_lines;
INSERT INTO bill_lines
  (sandbox_uid, start, ordinal, org, project, sandbox_name, kind, from_s, to_s, rate, amount, waived)
  SELECT sandbox_uid, start, ordinal, org, project, sandbox_name, kind, from_s, to_s, rate,
         CASE WHEN waived THEN 0 ELSE rate * (to_s - from_s) END, waived FROM cut;

-- Why a line costs what it costs: Charged, or where the money had ended.
ALTER TABLE bill_lines ADD COLUMN reason text COLLATE "C";
UPDATE bill_lines SET reason = CASE WHEN waived THEN 'InsufficientCredits' ELSE 'Charged' END;
-- The month (202611) whose invoice tells of a line that was posted after its own month was closed; NULL: in time.
ALTER TABLE bill_lines ADD COLUMN late_in integer;
ALTER TABLE bill_lines
  ALTER COLUMN reason SET NOT NULL,
  ADD CONSTRAINT bill_lines_within_a_day CHECK (from_s / 86400 = (to_s - 1) / 86400),
  ADD CONSTRAINT bill_lines_reason CHECK (waived = (reason <> 'Charged'));
CREATE INDEX bill_of_org ON bill_lines (org, from_s, sandbox_uid, start, ordinal);
CREATE INDEX bill_late ON bill_lines (org, late_in, from_s, sandbox_uid, start, ordinal) WHERE late_in IS NOT NULL;

-- Sums of the lines, kept by the transaction that posts them: a bill of a month reads a few rows a day.
CREATE TABLE bill_days (
  org     text           COLLATE "C" NOT NULL,
  day     integer        NOT NULL,               -- since 1970-01-01
  project text           COLLATE "C" NOT NULL,
  kind    text           COLLATE "C" NOT NULL,
  reason  text           COLLATE "C" NOT NULL,
  late_in integer        NOT NULL DEFAULT 0,     -- as of bill_lines; 0: in time
  seconds bigint         NOT NULL,
  amount  numeric(38,12) NOT NULL,
  lines   bigint         NOT NULL,
  PRIMARY KEY (org, day, project, kind, reason, late_in)
) WITH (fillfactor = 60);
INSERT INTO bill_days (org, day, project, kind, reason, seconds, amount, lines)
  SELECT org, (from_s / 86400)::integer, project, kind, reason, sum(to_s - from_s), sum(amount), count(*)
    FROM bill_lines GROUP BY 1, 2, 3, 4, 5;

-- How far the months of an organization are closed: what is posted later for a second before it is late.
CREATE TABLE billing_periods (
  org         text    COLLATE "C" PRIMARY KEY,
  closed_to_s bigint  NOT NULL,  -- the end of a month
  next_month  integer NOT NULL   -- the month that begins there, 202612
);

-- Where the lines of an account's era ended.
CREATE TABLE exhaustions (
  org  text   COLLATE "C" NOT NULL,
  era  bigint NOT NULL,
  at_s bigint NOT NULL,
  PRIMARY KEY (org, era)
);

-- The lines of the open starts as if each were released at at_s, of one organization or (NULL) of all: what they have
-- come to. As domain/lines.cpp and domain/account.cpp rate them; a test holds the two together.
CREATE FUNCTION open_lines(of_org text, at_s bigint)
  RETURNS TABLE (org text, project text, sandbox_uid text, sandbox_name text, start bigint, ordinal integer,
                 kind text, from_s bigint, to_s bigint, rate numeric, amount numeric, waived boolean, reason text)
  LANGUAGE sql STABLE AS $$
  WITH spans AS (
    SELECT s.*, greatest(s.from_s, open_lines.at_s) AS end_s,
           least(s.paid_until_s, e.at_s, CASE WHEN s.era = a.era AND a.rate > 0 THEN
             least(div(a.credits - a.charged - a.pending - a.held_funded + a.base, a.rate), 9e15)::bigint END)
             AS broke_s
      FROM starts s JOIN accounts a ON a.org = s.org LEFT JOIN exhaustions e ON e.org = s.org AND e.era = s.era
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
         CASE WHEN NOT p.waived THEN 'Charged' WHEN m.cap_s = m.paid_s THEN 'MaxCostReached'
              ELSE 'InsufficientCredits' END
    FROM marks m
   CROSS JOIN LATERAL (VALUES ('Starting', m.from_s, m.run_s), ('Running', m.run_s, m.stop_s),
                              ('Stopping', m.stop_s, m.end_s)) AS k (kind, a, b)
   CROSS JOIN LATERAL (VALUES (least(greatest(coalesce(m.paid_s, k.b), k.a), k.b))) AS c (at)
   CROSS JOIN LATERAL (VALUES (k.a, c.at, false), (c.at, k.b, true)) AS p (a, b, waived)
   CROSS JOIN LATERAL generate_series(p.a / 86400, (p.b - 1) / 86400) AS d (day)
   CROSS JOIN LATERAL (VALUES (greatest(p.a, d.day * 86400), least(p.b, (d.day + 1) * 86400))) AS l (a, b)
   WHERE p.a < p.b
$$;
COMMIT;
