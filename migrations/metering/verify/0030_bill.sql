-- Verify metering:0030_bill
BEGIN;
SELECT reason, late_in FROM bill_lines WHERE false;
SELECT org, day, project, kind, reason, late_in, seconds, amount, lines FROM bill_days WHERE false;
SELECT org, closed_to_s, next_month FROM billing_periods WHERE false;
SELECT org, era, at_s FROM exhaustions WHERE false;
SELECT org, project, sandbox_uid, sandbox_name, start, ordinal, kind, from_s, to_s, rate, amount, waived, reason
  FROM open_lines(NULL, 0) WHERE false;
ROLLBACK;
