BEGIN;
SELECT machine, org, runtime, data_path, incarnation, cpu_milli, memory_bytes, disk_bytes, used_cpu_milli,
       used_memory_bytes, used_disk_bytes, past_changes, seen_us FROM machines WHERE false;
SELECT sandbox_uid, machine, epoch, changes, phase, desired FROM desired_slots WHERE false;
SELECT sandbox_uid, start, org, cpu_milli, memory_bytes, disk_bytes, since_us FROM waiting_starts WHERE false;
SELECT stream, kind, start, due_us FROM deadlines WHERE false;
ROLLBACK;
