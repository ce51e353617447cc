-- Revert metering:0003_metering
BEGIN;
DROP TABLE balance_deadlines;
DROP TABLE accounts;
DROP TABLE starts;
DROP TABLE bill_lines;
DROP TABLE postings;
DROP TABLE prices;
COMMIT;
