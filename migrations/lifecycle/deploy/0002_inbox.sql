BEGIN;
SET LOCAL search_path = lifecycle;
\ir ../../../libs/bus/sql/inbox.sql
COMMIT;
