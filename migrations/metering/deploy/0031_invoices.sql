-- Deploy metering:0031_invoices
BEGIN;
-- The last number of an issuer. Its row is locked by the transaction that takes the next, so there is no gap.
CREATE TABLE invoice_counters (
  issuer text   COLLATE "C" PRIMARY KEY,
  last   bigint NOT NULL
);

-- One a month of an organization that used anything, or whose earlier months changed.
CREATE TABLE invoices (
  number      text           COLLATE "C" PRIMARY KEY,  -- NODUS-00000001
  issuer      text           COLLATE "C" NOT NULL,
  sequence    bigint         NOT NULL,
  org         text           COLLATE "C" NOT NULL,
  month       integer        NOT NULL,                 -- 202611, UTC
  issued_us   bigint         NOT NULL,
  proven_to_s bigint         NOT NULL,                 -- intervals that were open are invoiced up to here
  total       numeric(38,12) NOT NULL CHECK (total = round(total, 2)),
  UNIQUE (issuer, sequence),
  UNIQUE (org, month)
);

CREATE TABLE invoice_lines (
  number  text           COLLATE "C" NOT NULL REFERENCES invoices,
  ordinal integer        NOT NULL,
  type    text           NOT NULL CHECK (type IN ('Usage', 'Correction', 'Rounding')),
  month   integer        NOT NULL,                     -- of the seconds; that of the invoice, unless a correction
  project text           COLLATE "C" NOT NULL,         -- empty: rounding
  kind    text           NOT NULL,
  reason  text           NOT NULL,
  seconds bigint         NOT NULL,
  amount  numeric(38,12) NOT NULL,
  PRIMARY KEY (number, ordinal)
);

-- What was invoiced of intervals that were still open, line by line. The next invoice takes it back and tells of what
-- really came: both are equal, unless later facts say otherwise.
CREATE TABLE estimates (
  org          text           COLLATE "C" NOT NULL,
  in_month     integer        NOT NULL,                -- whose invoice has it
  sandbox_uid  text           COLLATE "C" NOT NULL,
  start        bigint         NOT NULL,
  ordinal      integer        NOT NULL,
  project      text           COLLATE "C" NOT NULL,
  sandbox_name text           COLLATE "C" NOT NULL,
  kind         text           NOT NULL,
  from_s       bigint         NOT NULL,
  to_s         bigint         NOT NULL CHECK (to_s > from_s),
  rate         numeric(38,12) NOT NULL,
  amount       numeric(38,12) NOT NULL,
  waived       boolean        NOT NULL,
  reason       text           COLLATE "C" NOT NULL,
  PRIMARY KEY (org, in_month, from_s, sandbox_uid, start, ordinal)
);

CREATE TRIGGER invoices_are_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON invoices
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER invoice_lines_are_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON invoice_lines
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER estimates_are_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON estimates
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
COMMIT;
