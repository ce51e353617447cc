-- Verify metering:0033_finance
BEGIN;
SELECT organization, project, sandbox, sandbox_uid, start, kind, began_at, ended_at, seconds, usd_per_second,
         amount_usd, reason, is_open
  FROM finance.lines WHERE false;
SELECT organization, project, hour, reason, seconds, amount_usd
  FROM finance.spend_by_hour WHERE false;
SELECT organization, project, day, kind, reason, seconds, amount_usd
  FROM finance.spend_by_day WHERE false;
SELECT organization, project, month, charged_seconds, waived_seconds, amount_usd
  FROM finance.spend_by_project WHERE false;
SELECT organization, project, sandbox, sandbox_uid, month, charged_seconds, waived_seconds, amount_usd
  FROM finance.spend_by_sandbox WHERE false;
SELECT organization, month, reason, seconds, amount_usd
  FROM finance.spend_by_reason WHERE false;
SELECT organization, project, sandbox, sandbox_uid, start, reason, began_at, ended_at, seconds, waived_usd
  FROM finance.waived WHERE false;
SELECT organization, project, sandbox, sandbox_uid, start, is_running, hold_usd, usd_per_second
  FROM finance.holds WHERE false;
SELECT organization, credits_usd, charged_usd, balance_usd, held_usd, usd_per_second, running
  FROM finance.balances WHERE false;
SELECT organization, month, month_to_date_usd, usd_per_second, forecast_usd
  FROM finance.forecast WHERE false;
SELECT organization, project, sandbox, sandbox_uid, began_at, ended_at, gib_seconds, amount_usd
  FROM finance.storage WHERE false;
SELECT number, issuer, organization, month, issued_at, open_until, total_usd
  FROM finance.invoices WHERE false;
SELECT number, organization, ordinal, type, month, project, kind, reason, seconds, amount_usd
  FROM finance.invoice_lines WHERE false;
ROLLBACK;
