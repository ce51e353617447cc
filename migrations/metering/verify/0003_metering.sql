-- Verify metering:0003_metering
BEGIN;
SELECT version, effective_us, cpu_per_vcpu_s, memory_per_gib_s, disk_per_gib_s, published_us FROM prices WHERE false;
SELECT org, kind, ref, amount, at_us FROM postings WHERE false;
SELECT sandbox_uid, start, ordinal, org, project, sandbox_name, kind, from_s, to_s, rate, amount, waived
  FROM bill_lines WHERE false;
SELECT sandbox_uid, start, org, project, sandbox_name, open, rate, hold, started_us, stopping_us, from_s, cap_s,
  cap_due_s, era, capped, stop_ordered FROM starts WHERE false;
SELECT org, credits, charged, pending, held_funded, held_open, rate, base, funded, open, era FROM accounts WHERE false;
SELECT org, due_us FROM balance_deadlines WHERE false;
ROLLBACK;
