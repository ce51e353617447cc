BEGIN;
ALTER TABLE machines DROP COLUMN lost_incarnation;
COMMIT;
