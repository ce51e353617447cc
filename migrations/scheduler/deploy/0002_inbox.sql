BEGIN;
SET LOCAL search_path = scheduler;
\ir ../../../libs/bus/sql/inbox.sql
COMMIT;
