-- Deploy metering:0020_machine_prices
BEGIN;
-- What a stopped Sandbox's restore point costs, and machines of an organization's own. As all of a version: immutable.
ALTER TABLE prices ADD COLUMN storage_per_gib_s numeric(38,12) NOT NULL DEFAULT 0 CHECK (storage_per_gib_s >= 0);
CREATE TABLE machine_prices (
  version      text           COLLATE "C" NOT NULL REFERENCES prices,
  machine_type text           COLLATE "C" NOT NULL,
  per_s        numeric(38,12) NOT NULL CHECK (per_s >= 0),
  PRIMARY KEY (version, machine_type)
);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE '% is append-only: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER prices_are_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON prices
  EXECUTE FUNCTION refuse_change();
CREATE TRIGGER prices_are_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON machine_prices
  EXECUTE FUNCTION refuse_change();
COMMIT;
