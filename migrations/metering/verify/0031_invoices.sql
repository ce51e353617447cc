-- Verify metering:0031_invoices
BEGIN;
SELECT issuer, last FROM invoice_counters WHERE false;
SELECT number, issuer, sequence, org, month, issued_us, proven_to_s, total FROM invoices WHERE false;
SELECT number, ordinal, type, month, project, kind, reason, seconds, amount FROM invoice_lines WHERE false;
SELECT org, in_month, sandbox_uid, start, ordinal, project, sandbox_name, kind, from_s, to_s, rate, amount, waived,
  reason FROM estimates WHERE false;
ROLLBACK;
