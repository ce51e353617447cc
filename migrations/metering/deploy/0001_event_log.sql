BEGIN;
CREATE SCHEMA metering;
SET LOCAL search_path = metering;
\ir ../../../libs/eventlog/sql/event_log.sql
COMMIT;
