BEGIN;
\ir ../../../libs/bus/sql/inbox.sql
COMMIT;
