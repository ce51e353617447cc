-- Verify metering:0032_start_facts
BEGIN;
SELECT sandbox_uid, start, org, price_version, labels, cpu_milli, memory_bytes, disk_bytes, machine_type
  FROM start_facts WHERE false;
ROLLBACK;
