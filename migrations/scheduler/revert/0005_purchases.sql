BEGIN;
ALTER TABLE waiting_starts DROP COLUMN whole;
DROP TABLE purchases;
COMMIT;
