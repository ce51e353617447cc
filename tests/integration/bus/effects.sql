-- What the reading service of the bus tests records. No unique key: a message applied twice must show.
CREATE TABLE effects (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  stream  text   NOT NULL,
  version bigint NOT NULL CHECK (version > 0)
);
