BEGIN;
CREATE SCHEMA scheduler;
\ir ../../../libs/eventlog/sql/event_log.sql
COMMIT;
