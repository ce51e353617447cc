BEGIN;
SET LOCAL search_path = scheduler;
DROP TABLE relay_offsets, parked, consumer_offsets;
COMMIT;
