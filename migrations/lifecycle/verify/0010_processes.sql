-- Verify lifecycle:0010_processes
BEGIN;
SELECT heard, over_us, over_reason FROM processes WHERE false;
SELECT sandbox_uid FROM outputs_to_remove WHERE false;
ROLLBACK;
