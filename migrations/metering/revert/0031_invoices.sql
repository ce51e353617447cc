-- Revert metering:0031_invoices
BEGIN;
DROP TABLE estimates, invoice_lines, invoices, invoice_counters;
COMMIT;
