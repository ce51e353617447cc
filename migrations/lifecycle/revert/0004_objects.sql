-- Revert lifecycle:0004_objects
BEGIN;
DROP FUNCTION object_events_add;
DROP FUNCTION changes_write;
DROP FUNCTION changes_begin;
DROP TABLE object_events;
DROP TABLE changes_floor;
DROP TABLE changes;
DROP INDEX processes_of_project;
ALTER TABLE processes DROP COLUMN resource_version;
DROP TABLE sandbox_told;
ALTER TABLE sandboxes DROP COLUMN phase, DROP COLUMN labels;
COMMIT;
