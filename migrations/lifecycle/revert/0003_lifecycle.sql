-- Revert lifecycle:0003_lifecycle
BEGIN;
DROP TABLE api_keys;
DROP TABLE projects;
DROP TABLE funds;
DROP TABLE deadlines;
DROP TABLE processes;
DROP TABLE sandboxes;
COMMIT;
