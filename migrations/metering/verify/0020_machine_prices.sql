-- Verify metering:0020_machine_prices
BEGIN;
SELECT storage_per_gib_s FROM prices WHERE false;
SELECT version, machine_type, per_s FROM machine_prices WHERE false;
ROLLBACK;
