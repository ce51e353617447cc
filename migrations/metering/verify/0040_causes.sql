-- Verify metering:0040_causes
BEGIN;
SELECT recovery FROM starts WHERE false;
SELECT project, era, at_s, by_budget FROM spend_ends WHERE false;
SELECT waived, reason FROM open_lines(NULL, 0) WHERE false;
ROLLBACK;
