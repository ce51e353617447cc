BEGIN;
-- The incarnation of a machine that an operator declared lost: it never gets work again.
ALTER TABLE machines ADD COLUMN lost_incarnation text NOT NULL DEFAULT '';
COMMIT;
