BEGIN;
SELECT org, first_us FROM purchases WHERE false;
SELECT whole FROM waiting_starts WHERE false;
ROLLBACK;
