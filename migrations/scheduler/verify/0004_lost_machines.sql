BEGIN;
SELECT lost_incarnation FROM machines WHERE false;
ROLLBACK;
