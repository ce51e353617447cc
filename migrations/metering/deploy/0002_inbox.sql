BEGIN;
SET LOCAL search_path = metering;
\ir ../../../libs/bus/sql/inbox.sql
COMMIT;
