-- Revert metering:0020_machine_prices
BEGIN;
DROP TRIGGER prices_are_immutable ON prices;
DROP TABLE machine_prices;
DROP FUNCTION refuse_change();
ALTER TABLE prices DROP COLUMN storage_per_gib_s;
COMMIT;
