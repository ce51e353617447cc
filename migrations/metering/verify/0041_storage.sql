-- Verify metering:0041_storage
BEGIN;
SELECT sandbox_uid, start, org, project, sandbox_name, rate, from_s, era, budget_era, waived, due
  FROM stored WHERE false;
SELECT sandbox_uid, start, org, price_version, size_bytes FROM storage_facts WHERE false;
SELECT storage_ordinal(from_s), kind, reason FROM open_lines(NULL, 0) WHERE false;
SELECT organization, gib_seconds, amount_usd, size_bytes, usd_per_second, reason, is_open
  FROM finance.storage WHERE false;
ROLLBACK;
