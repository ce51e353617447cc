-- Verify lifecycle:0010_tenants
BEGIN;
SELECT org, display_name, created_us, suspended_us, suspended_reason, quota_sandboxes, quota_cpu_milli,
  quota_stored_bytes, quota_creates_per_minute FROM organizations WHERE false;
SELECT id, org, name, created_us FROM projects WHERE false;
SELECT id, org, role, name, project, created_by, created_us, expires_us, revoked_us FROM api_keys WHERE false;
SELECT sha256, key_id, hint, created_us, expires_us FROM api_key_secrets WHERE false;
SELECT org, sandboxes, cpu_milli, stored_bytes FROM usage_sums WHERE false;
SELECT id, org, sandboxes, cpu_milli, stored_bytes FROM usage_changes WHERE false;
SELECT org, at_us, id, key_id, key_name, role, project, method, route, object, status, reason, peer
  FROM audit WHERE false;
ROLLBACK;
