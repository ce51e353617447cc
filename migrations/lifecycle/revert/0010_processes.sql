-- Revert lifecycle:0010_processes
BEGIN;
DROP TABLE outputs_to_remove;
DROP INDEX processes_running;
DROP INDEX processes_over;
ALTER TABLE processes DROP COLUMN over_reason, DROP COLUMN over_us, DROP COLUMN heard;
COMMIT;
