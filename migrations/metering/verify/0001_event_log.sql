BEGIN;
SELECT log_partition, position, stream, version, type, payload, at_us FROM published_events WHERE false;
SELECT stream, version, state_version, state FROM heads WHERE false;
SELECT 1 / count(*) FROM log_settings;
ROLLBACK;
