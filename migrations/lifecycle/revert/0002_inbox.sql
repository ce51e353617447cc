BEGIN;
SET LOCAL search_path = lifecycle;
DROP TABLE relay_offsets, parked, consumer_offsets;
COMMIT;
