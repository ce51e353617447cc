BEGIN;
CREATE SCHEMA lifecycle;
SET LOCAL search_path = lifecycle;
\ir ../../../libs/eventlog/sql/event_log.sql
COMMIT;
