BEGIN;
\ir ../../../libs/eventlog/sql/heads_by_place.sql
COMMIT;
