-- Deploy lifecycle:0010_processes
BEGIN;
-- How an open Process ends when its machine says nothing of it.
ALTER TABLE processes ADD COLUMN heard boolean NOT NULL DEFAULT false;   -- the machine said that it has the Process
ALTER TABLE processes ADD COLUMN over_us bigint;                         -- when its start was over; null: it is not
ALTER TABLE processes ADD COLUMN over_reason text;                       -- ParentStopped | NodeLost
UPDATE processes SET over_us = 0, over_reason = 'ParentStopped'
  WHERE NOT ended AND NOT EXISTS (SELECT 1 FROM sandboxes s WHERE s.uid = processes.sandbox_uid
                                  AND s.epoch = processes.epoch AND s.released_at_us IS NULL);
CREATE INDEX processes_over ON processes (over_us) WHERE NOT ended AND over_us IS NOT NULL;
CREATE INDEX processes_running ON processes (uid) WHERE NOT ended AND over_us IS NULL;

-- Sandboxes that are deleted, and whose commands' output is still to be removed from the output store.
CREATE TABLE outputs_to_remove (
  sandbox_uid text COLLATE "C" PRIMARY KEY
);
COMMIT;
