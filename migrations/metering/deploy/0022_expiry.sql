-- Deploy metering:0022_expiry
BEGIN;
-- What leaves a balance when a Grant expires is a posting of its own; its ref is the Grant's id. A Grant of which holds
-- kept something expires in two steps or more: the later ones carry the number of their event.
ALTER TABLE postings DROP CONSTRAINT postings_kind_check;
ALTER TABLE postings ADD CONSTRAINT postings_kind_check CHECK (kind IN ('Credit', 'Charge', 'Expiry', 'Storage'));
COMMIT;
