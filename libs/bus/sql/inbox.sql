-- What a service keeps about the topics it consumes and the one it publishes. Included by each service's first
-- migration, after event_log.sql, with the service's schema as the search_path.

-- How far a consumed topic is applied. The row moves in the transaction that applies the messages.
CREATE TABLE consumer_offsets (
  topic         text    NOT NULL,
  log_partition integer NOT NULL,
  position      bigint  NOT NULL DEFAULT 0,   -- of the source's log: the last one whose effect is committed
  cursor        text    NOT NULL DEFAULT '',  -- where the transport goes on (a Kafka offset); '' from the start
  PRIMARY KEY (topic, log_partition)
);

-- Messages that could not be applied, and every later one of their streams, in order.
CREATE TABLE parked (
  id            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  topic         text        NOT NULL,
  log_partition integer     NOT NULL,
  position      bigint      NOT NULL,
  stream        text        NOT NULL,
  version       bigint      NOT NULL,
  type          text        NOT NULL,
  payload       bytea       NOT NULL,
  at_us         bigint      NOT NULL,  -- the writer's clock, microseconds since 1970 UTC
  error         text        NOT NULL,
  parked_at     timestamptz NOT NULL DEFAULT now(),
  UNIQUE (topic, log_partition, position)
);
CREATE INDEX parked_stream ON parked (topic, stream, position);

-- How far this service's own log is published to Kafka (unused by the transport `log`).
CREATE TABLE relay_offsets (
  log_partition integer PRIMARY KEY,
  position      bigint  NOT NULL
);

-- The other services may read what this one publishes, and nothing else of it.
DO $$
DECLARE
  reader name;
BEGIN
  FOR reader IN
    SELECT rolname FROM pg_roles
     WHERE rolname IN ('lifecycle', 'scheduler', 'metering') AND rolname <> current_schema()
  LOOP
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), reader);
    EXECUTE format('GRANT SELECT ON %I.published_events TO %I', current_schema(), reader);
  END LOOP;
END
$$;
