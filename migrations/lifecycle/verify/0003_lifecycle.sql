-- Verify lifecycle:0003_lifecycle
BEGIN;
SELECT uid, org, project, name, epoch, released_at_us FROM sandboxes WHERE false;
SELECT uid, sandbox_uid, project, name, epoch, admitted_us, expires_us, ended FROM processes WHERE false;
SELECT stream, kind, due_us FROM deadlines WHERE false;
SELECT org, changed_us FROM funds WHERE false;
SELECT project, org FROM projects WHERE false;
SELECT id, key_sha256, org, role, created_at, revoked_at FROM api_keys WHERE false;
ROLLBACK;
