BEGIN;
CREATE SCHEMA metering;
\ir ../../../libs/eventlog/sql/event_log.sql
COMMIT;
