BEGIN;
CREATE SCHEMA lifecycle;
\ir ../../../libs/eventlog/sql/event_log.sql
COMMIT;
