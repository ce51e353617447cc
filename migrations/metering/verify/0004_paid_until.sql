-- Verify metering:0004_paid_until
BEGIN;
SELECT paid_until_s FROM starts WHERE false;
ROLLBACK;
