-- Deploy metering:0011_brake
BEGIN;
-- The platform's brake on stops for money: the newest row counts. Rows are never changed.
CREATE TABLE brake_changes (
  id      bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  engaged boolean NOT NULL,
  reason  text    NOT NULL,
  author  text    NOT NULL,
  at_us   bigint  NOT NULL
);
COMMIT;
