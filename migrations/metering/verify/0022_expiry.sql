-- Verify metering:0022_expiry
BEGIN;
SELECT 1 / (SELECT count(*) FROM pg_constraint WHERE conrelid = 'postings'::regclass AND conname = 'postings_kind_check'
  AND pg_get_constraintdef(oid) LIKE '%Expiry%');
ROLLBACK;
