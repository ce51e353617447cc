-- Revert lifecycle:0010_tenants
BEGIN;
DROP TABLE audit;
DROP FUNCTION audit_is_append_only();
DROP INDEX sandboxes_of_org;
DROP TABLE usage_changes;
DROP TABLE usage_sums;
ALTER TABLE api_keys ADD COLUMN key_sha256 text COLLATE "C" UNIQUE,
  ADD COLUMN created_at timestamptz NOT NULL DEFAULT now(),
  ADD COLUMN revoked_at timestamptz;
UPDATE api_keys k SET key_sha256 = (SELECT s.sha256 FROM api_key_secrets s WHERE s.key_id = k.id
                                    ORDER BY s.created_us DESC LIMIT 1),
  created_at = to_timestamp(created_us / 1000000.0), revoked_at = to_timestamp(revoked_us / 1000000.0);
DELETE FROM api_keys WHERE key_sha256 IS NULL;
ALTER TABLE api_keys ALTER COLUMN key_sha256 SET NOT NULL;
DROP TABLE api_key_secrets;
DROP INDEX api_keys_by_name;
ALTER TABLE api_keys DROP COLUMN name, DROP COLUMN project, DROP COLUMN created_by, DROP COLUMN created_us,
  DROP COLUMN expires_us, DROP COLUMN revoked_us;
ALTER TABLE projects DROP CONSTRAINT projects_by_name, DROP COLUMN name, DROP COLUMN created_us;
ALTER TABLE projects RENAME COLUMN id TO project;
DROP TABLE organizations;
COMMIT;
