BEGIN;
DROP TABLE relay_offsets, parked, consumer_offsets;
COMMIT;
