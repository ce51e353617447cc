-- Verify lifecycle:0004_objects
BEGIN;
SELECT phase, labels FROM sandboxes WHERE false;
SELECT uid, resource_version, generation, busy FROM sandbox_told WHERE false;
SELECT resource_version FROM processes WHERE false;
SELECT position, project, resource, type, at_us, object, was FROM changes WHERE false;
SELECT 1 / count(*) FROM changes_floor;
SELECT uid, name, object_uid, count, resource_version FROM object_events WHERE false;
SELECT uid, last, generation, busy, open, state FROM changes_begin('{}');
SELECT changes_write(0, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}');
SELECT ord, uid FROM object_events_add(100, 0, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}');
ROLLBACK;
