BEGIN;
DROP TABLE deadlines;
DROP TABLE waiting_starts;
DROP TABLE desired_slots;
DROP TABLE machines;
COMMIT;
