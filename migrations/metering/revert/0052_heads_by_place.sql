BEGIN;
DROP FUNCTION log_write, log_take_heads;
COMMIT;
