BEGIN;
SELECT topic, log_partition, position, cursor FROM consumer_offsets WHERE false;
SELECT id, topic, stream, error, parked_at FROM parked WHERE false;
SELECT log_partition, position FROM relay_offsets WHERE false;
ROLLBACK;
