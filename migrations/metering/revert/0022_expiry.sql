-- Revert metering:0022_expiry
BEGIN;
ALTER TABLE postings DROP CONSTRAINT postings_kind_check;
ALTER TABLE postings ADD CONSTRAINT postings_kind_check CHECK (kind IN ('Credit', 'Charge'));
COMMIT;
