BEGIN;
-- Organizations that have purchased credits: the limit on their shared capacity is lifted.
CREATE TABLE purchases (
  org      text   COLLATE "C" PRIMARY KEY,
  first_us bigint NOT NULL
);
-- Waits for a machine of its own: one that nothing else runs on.
ALTER TABLE waiting_starts ADD COLUMN whole boolean NOT NULL DEFAULT false;
COMMIT;
