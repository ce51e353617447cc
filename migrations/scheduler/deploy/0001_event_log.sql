BEGIN;
CREATE SCHEMA scheduler;
SET LOCAL search_path = scheduler;
\ir ../../../libs/eventlog/sql/event_log.sql
COMMIT;
