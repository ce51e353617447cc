-- Deploy metering:0033_finance
BEGIN;
-- What dashboards read: documented views, and a role that reads them and nothing else. The role is made here when
-- whoever deploys may make roles; else an administrator makes it before (CREATE ROLE nodus_finance LOGIN).
DO $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'nodus_finance') THEN
    CREATE ROLE nodus_finance NOLOGIN;
  END IF;
EXCEPTION
  WHEN duplicate_object OR unique_violation THEN NULL;
  WHEN insufficient_privilege THEN
    RAISE NOTICE 'There is no role nodus_finance; make it, and grant it as the end of this step does.';
END $$;

CREATE SCHEMA finance;
COMMENT ON SCHEMA finance IS
  'What was spent, for dashboards. Amounts are USD, exact to 1e-12; times are UTC. See docs/finance.md.';

-- With the rights of the owner, since a view's functions run with those of who reads it.
CREATE FUNCTION finance.open_now()
  RETURNS TABLE (org text, project text, sandbox_uid text, sandbox_name text, start bigint, ordinal integer,
         kind text,
                 from_s bigint, to_s bigint, rate numeric, amount numeric, waived boolean, reason text)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
  AS $$ SELECT * FROM open_lines(NULL, ceil(extract(epoch FROM now()))::bigint) $$;
COMMENT ON FUNCTION finance.open_now() IS 'The lines of open starts until now';
REVOKE ALL ON FUNCTION finance.open_now() FROM PUBLIC;

CREATE VIEW finance.lines AS
  SELECT b.org AS organization, b.project, b.sandbox_name AS sandbox, b.sandbox_uid, b.start, b.kind,
         to_timestamp(b.from_s) AS began_at, to_timestamp(b.to_s) AS ended_at, b.to_s - b.from_s AS seconds,
         b.rate AS usd_per_second, b.amount AS amount_usd, b.reason, false AS is_open
    FROM bill_lines b
  UNION ALL
  SELECT o.org, o.project, o.sandbox_name, o.sandbox_uid, o.start, o.kind, to_timestamp(o.from_s),
         to_timestamp(o.to_s),
         o.to_s - o.from_s, o.rate, o.amount, o.reason, true
    FROM finance.open_now() o;
COMMENT ON VIEW finance.lines IS
  'Every line of every bill: posted ones, and what open starts have come to until now. No line spans midnight (UTC).';
COMMENT ON COLUMN finance.lines.organization IS 'Who pays';
COMMENT ON COLUMN finance.lines.project IS 'The project, as organization/name';
COMMENT ON COLUMN finance.lines.sandbox IS 'Name of the Sandbox';
COMMENT ON COLUMN finance.lines.sandbox_uid IS 'Its uid: a name may be used again after a delete';
COMMENT ON COLUMN finance.lines.start IS 'Which of its starts: 1, 2, 3 …';
COMMENT ON COLUMN finance.lines.kind IS 'Starting, Running or Stopping';
COMMENT ON COLUMN finance.lines.began_at IS 'First second, UTC, inclusive';
COMMENT ON COLUMN finance.lines.ended_at IS 'End, UTC, exclusive';
COMMENT ON COLUMN finance.lines.seconds IS 'Whole seconds';
COMMENT ON COLUMN finance.lines.usd_per_second IS 'Rate of the start, frozen when it was funded';
COMMENT ON COLUMN finance.lines.amount_usd IS 'Rate × seconds, exact; 0 when waived';
COMMENT ON COLUMN finance.lines.reason IS 'Charged, or why it was waived: InsufficientCredits, MaxCostReached';
COMMENT ON COLUMN finance.lines.is_open IS 'Of a start that is not over: grows until it is';

CREATE VIEW finance.spend_by_hour AS
  SELECT l.organization, l.project, to_timestamp(h.hour * 3600) AS hour, l.reason,
         sum(h.seconds) AS seconds,
         sum(CASE WHEN l.reason = 'Charged' THEN l.usd_per_second * h.seconds ELSE 0 END) AS amount_usd
    FROM finance.lines l
   CROSS JOIN LATERAL (
     SELECT n AS hour, least(extract(epoch FROM l.ended_at)::bigint, (n + 1) * 3600)
                       - greatest(extract(epoch FROM l.began_at)::bigint, n * 3600) AS seconds
       FROM generate_series(extract(epoch FROM l.began_at)::bigint / 3600,
                            (extract(epoch FROM l.ended_at)::bigint - 1) / 3600) AS n) h
   GROUP BY l.organization, l.project, h.hour, l.reason;
COMMENT ON VIEW finance.spend_by_hour IS
  'Spend by hour. Ask for an organization and few days: hours are made from lines.';
COMMENT ON COLUMN finance.spend_by_hour.organization IS 'Who pays';
COMMENT ON COLUMN finance.spend_by_hour.project IS 'The project, as organization/name';
COMMENT ON COLUMN finance.spend_by_hour.hour IS 'Begin of the hour, UTC';
COMMENT ON COLUMN finance.spend_by_hour.reason IS 'Charged, or why it was waived';
COMMENT ON COLUMN finance.spend_by_hour.seconds IS 'Seconds of all Sandboxes';
COMMENT ON COLUMN finance.spend_by_hour.amount_usd IS 'What they cost, exact';

CREATE VIEW finance.spend_by_day AS
  SELECT d.org AS organization, d.project, date '1970-01-01' + d.day AS day, d.kind, d.reason,
         sum(d.seconds)::bigint AS seconds, sum(d.amount) AS amount_usd
    FROM (SELECT org, project, day, kind, reason, seconds, amount FROM bill_days
          UNION ALL
          SELECT org, project, (from_s / 86400)::integer, kind, reason, to_s - from_s,
         amount FROM finance.open_now()) d
   GROUP BY d.org, d.project, d.day, d.kind, d.reason;
COMMENT ON VIEW finance.spend_by_day IS
  'Spend by day (UTC), from sums that are kept as lines are posted: fast however many lines there are.';
COMMENT ON COLUMN finance.spend_by_day.organization IS 'Who pays';
COMMENT ON COLUMN finance.spend_by_day.project IS 'The project, as organization/name';
COMMENT ON COLUMN finance.spend_by_day.day IS 'Day, UTC';
COMMENT ON COLUMN finance.spend_by_day.kind IS 'Starting, Running or Stopping';
COMMENT ON COLUMN finance.spend_by_day.reason IS 'Charged, or why it was waived';
COMMENT ON COLUMN finance.spend_by_day.seconds IS 'Seconds of all Sandboxes';
COMMENT ON COLUMN finance.spend_by_day.amount_usd IS 'What they cost, exact';

CREATE VIEW finance.spend_by_project AS
  SELECT organization, project, date_trunc('month', day)::date AS month,
         sum(seconds) FILTER (WHERE reason = 'Charged')::bigint AS charged_seconds,
         sum(seconds) FILTER (WHERE reason <> 'Charged')::bigint AS waived_seconds, sum(amount_usd) AS amount_usd
    FROM finance.spend_by_day GROUP BY organization, project, date_trunc('month', day);
COMMENT ON VIEW finance.spend_by_project IS
  'Spend by project and month (UTC).';
COMMENT ON COLUMN finance.spend_by_project.organization IS 'Who pays';
COMMENT ON COLUMN finance.spend_by_project.project IS 'The project, as organization/name';
COMMENT ON COLUMN finance.spend_by_project.month IS 'First day of the month, UTC';
COMMENT ON COLUMN finance.spend_by_project.charged_seconds IS 'Seconds that were charged';
COMMENT ON COLUMN finance.spend_by_project.waived_seconds IS 'Seconds that were not';
COMMENT ON COLUMN finance.spend_by_project.amount_usd IS 'Spend, exact';

CREATE VIEW finance.spend_by_sandbox AS
  SELECT organization, project, min(sandbox) AS sandbox, sandbox_uid,
         date_trunc('month', began_at AT TIME ZONE 'UTC')::date AS month,
         sum(seconds) FILTER (WHERE reason = 'Charged')::bigint AS charged_seconds,
         sum(seconds) FILTER (WHERE reason <> 'Charged')::bigint AS waived_seconds, sum(amount_usd) AS amount_usd
    FROM finance.lines GROUP BY organization, project, sandbox_uid, date_trunc('month', began_at AT TIME ZONE 'UTC');
COMMENT ON VIEW finance.spend_by_sandbox IS
  'Spend by Sandbox and month (UTC).';
COMMENT ON COLUMN finance.spend_by_sandbox.organization IS 'Who pays';
COMMENT ON COLUMN finance.spend_by_sandbox.project IS 'The project, as organization/name';
COMMENT ON COLUMN finance.spend_by_sandbox.sandbox IS 'Name of the Sandbox';
COMMENT ON COLUMN finance.spend_by_sandbox.sandbox_uid IS 'Its uid';
COMMENT ON COLUMN finance.spend_by_sandbox.month IS 'First day of the month, UTC';
COMMENT ON COLUMN finance.spend_by_sandbox.charged_seconds IS 'Seconds that were charged';
COMMENT ON COLUMN finance.spend_by_sandbox.waived_seconds IS 'Seconds that were not';
COMMENT ON COLUMN finance.spend_by_sandbox.amount_usd IS 'Spend, exact';

CREATE VIEW finance.spend_by_reason AS
  SELECT organization, date_trunc('month', day)::date AS month, reason, sum(seconds)::bigint AS seconds,
         sum(amount_usd) AS amount_usd
    FROM finance.spend_by_day GROUP BY organization, date_trunc('month', day), reason;
COMMENT ON VIEW finance.spend_by_reason IS
  'Seconds and spend by reason and month (UTC): what was charged, and what was waived for what.';
COMMENT ON COLUMN finance.spend_by_reason.organization IS 'Who pays';
COMMENT ON COLUMN finance.spend_by_reason.month IS 'First day of the month, UTC';
COMMENT ON COLUMN finance.spend_by_reason.reason IS 'Charged, or why it was waived';
COMMENT ON COLUMN finance.spend_by_reason.seconds IS 'Seconds of all Sandboxes';
COMMENT ON COLUMN finance.spend_by_reason.amount_usd IS 'What they cost, exact; 0 for what was waived';

CREATE VIEW finance.waived AS
  SELECT organization, project, sandbox, sandbox_uid, start, reason, began_at, ended_at, seconds,
         usd_per_second * seconds AS waived_usd
    FROM finance.lines WHERE reason <> 'Charged';
COMMENT ON VIEW finance.waived IS
  'What was not charged: seconds after the money had ended, and what they would have cost.';
COMMENT ON COLUMN finance.waived.organization IS 'Who pays';
COMMENT ON COLUMN finance.waived.project IS 'The project, as organization/name';
COMMENT ON COLUMN finance.waived.sandbox IS 'Name of the Sandbox';
COMMENT ON COLUMN finance.waived.sandbox_uid IS 'Its uid';
COMMENT ON COLUMN finance.waived.start IS 'Which of its starts';
COMMENT ON COLUMN finance.waived.reason IS 'InsufficientCredits or MaxCostReached';
COMMENT ON COLUMN finance.waived.began_at IS 'First second, UTC';
COMMENT ON COLUMN finance.waived.ended_at IS 'End, UTC, exclusive';
COMMENT ON COLUMN finance.waived.seconds IS 'Whole seconds';
COMMENT ON COLUMN finance.waived.waived_usd IS 'Rate × seconds, which nobody pays';

CREATE VIEW finance.holds AS
  SELECT org AS organization, project, sandbox_name AS sandbox, sandbox_uid, start, open AS is_running,
         hold AS hold_usd,
         rate AS usd_per_second
    FROM starts;
COMMENT ON VIEW finance.holds IS
  'Money that is set aside for starts that are funded or run.';
COMMENT ON COLUMN finance.holds.organization IS 'Who pays';
COMMENT ON COLUMN finance.holds.project IS 'The project, as organization/name';
COMMENT ON COLUMN finance.holds.sandbox IS 'Name of the Sandbox';
COMMENT ON COLUMN finance.holds.sandbox_uid IS 'Its uid';
COMMENT ON COLUMN finance.holds.start IS 'Which of its starts';
COMMENT ON COLUMN finance.holds.is_running IS 'It has a slot; else it is funded and waits';
COMMENT ON COLUMN finance.holds.hold_usd IS 'Set aside: rate × the hold''s seconds';
COMMENT ON COLUMN finance.holds.usd_per_second IS 'Rate of the start';

CREATE VIEW finance.balances AS
  SELECT a.org AS organization, a.credits AS credits_usd, a.charged AS charged_usd,
         a.credits - a.charged - coalesce(o.amount, 0) AS balance_usd, a.held_funded + a.held_open AS held_usd,
         a.rate AS usd_per_second, a.open AS running
    FROM accounts a LEFT JOIN (SELECT org,
         sum(amount) AS amount FROM finance.open_now() GROUP BY org) o ON o.org = a.org;
COMMENT ON VIEW finance.balances IS
  'Balance of each organization, now.';
COMMENT ON COLUMN finance.balances.organization IS 'Who pays';
COMMENT ON COLUMN finance.balances.credits_usd IS 'All credits so far';
COMMENT ON COLUMN finance.balances.charged_usd IS 'All charges of starts that are over';
COMMENT ON COLUMN finance.balances.balance_usd IS 'Credits less charges, less what open starts have come to';
COMMENT ON COLUMN finance.balances.held_usd IS 'Set aside, see holds';
COMMENT ON COLUMN finance.balances.usd_per_second IS 'What runs costs, together';
COMMENT ON COLUMN finance.balances.running IS 'Open starts that are charged';

CREATE VIEW finance.forecast AS
  SELECT s.organization, s.month, s.month_to_date_usd, s.usd_per_second,
         s.month_to_date_usd
           + greatest(0, least(s.usd_per_second * s.seconds_left, s.balance_usd)) AS forecast_usd
    FROM (SELECT b.organization, date_trunc('month', now() AT TIME ZONE 'UTC')::date AS month, b.usd_per_second,
         b.balance_usd,
                 coalesce(p.amount_usd, 0) AS month_to_date_usd,
                 extract(epoch FROM date_trunc('month', now() AT TIME ZONE 'UTC') + interval '1 month'
                                    - now() AT TIME ZONE 'UTC')::bigint AS seconds_left
            FROM finance.balances b
            LEFT JOIN (SELECT organization, month, sum(amount_usd) AS amount_usd FROM finance.spend_by_project
                        GROUP BY organization, month) p
              ON p.organization = b.organization AND p.month = date_trunc('month', now() AT TIME ZONE 'UTC')::date) s;
COMMENT ON VIEW finance.forecast IS
  'What the present month (UTC) comes to if what runs goes on, as long as the balance lasts.';
COMMENT ON COLUMN finance.forecast.organization IS 'Who pays';
COMMENT ON COLUMN finance.forecast.month IS 'First day of the present month, UTC';
COMMENT ON COLUMN finance.forecast.month_to_date_usd IS 'Spend so far';
COMMENT ON COLUMN finance.forecast.usd_per_second IS 'What runs costs, together';
COMMENT ON COLUMN finance.forecast.forecast_usd IS
  'Spend so far and usd_per_second until the month''s end, at most the balance';

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

CREATE VIEW finance.invoices AS
  SELECT number, issuer, org AS organization, to_date(month::text, 'YYYYMM') AS month,
         to_timestamp(issued_us / 1000000.0) AS issued_at, to_timestamp(proven_to_s) AS open_until, total AS total_usd
    FROM invoices;
COMMENT ON VIEW finance.invoices IS
  'Invoices, one a month (UTC) of an organization.';
COMMENT ON COLUMN finance.invoices.number IS 'Gapless for each issuer';
COMMENT ON COLUMN finance.invoices.issuer IS 'Who issued it';
COMMENT ON COLUMN finance.invoices.organization IS 'Who pays';
COMMENT ON COLUMN finance.invoices.month IS 'First day of the month, UTC';
COMMENT ON COLUMN finance.invoices.issued_at IS 'When the month was closed';
COMMENT ON COLUMN finance.invoices.open_until IS 'Intervals that were open are invoiced up to here';
COMMENT ON COLUMN finance.invoices.total_usd IS 'Whole cents';

CREATE VIEW finance.invoice_lines AS
  SELECT i.number, i.org AS organization, l.ordinal, l.type, to_date(l.month::text, 'YYYYMM') AS month,
         l.project, l.kind, l.reason,
         l.seconds, l.amount AS amount_usd
    FROM invoice_lines l JOIN invoices i USING (number);
COMMENT ON VIEW finance.invoice_lines IS
  'Lines of invoices; with the rounding they add up to the total.';
COMMENT ON COLUMN finance.invoice_lines.number IS 'Of the invoice';
COMMENT ON COLUMN finance.invoice_lines.organization IS 'Who pays';
COMMENT ON COLUMN finance.invoice_lines.ordinal IS '1, 2, 3 … within the invoice';
COMMENT ON COLUMN finance.invoice_lines.type IS 'Usage, Correction (of an earlier month) or Rounding';
COMMENT ON COLUMN finance.invoice_lines.month IS 'First day of the month of the seconds, UTC';
COMMENT ON COLUMN finance.invoice_lines.project IS 'The project, as organization/name; empty: rounding';
COMMENT ON COLUMN finance.invoice_lines.kind IS 'Starting, Running or Stopping';
COMMENT ON COLUMN finance.invoice_lines.reason IS 'Charged, or why it was waived';
COMMENT ON COLUMN finance.invoice_lines.seconds IS 'Whole seconds; negative: taken back';
COMMENT ON COLUMN finance.invoice_lines.amount_usd IS 'Exact';

DO $$ BEGIN
  IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'nodus_finance') THEN
    GRANT USAGE ON SCHEMA finance TO nodus_finance;
    GRANT SELECT ON ALL TABLES IN SCHEMA finance TO nodus_finance;
    GRANT EXECUTE ON FUNCTION finance.open_now() TO nodus_finance;
  END IF;
END $$;
COMMIT;
