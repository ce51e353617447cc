BEGIN;
SET LOCAL search_path = metering;
DROP TABLE relay_offsets, parked, consumer_offsets;
COMMIT;
