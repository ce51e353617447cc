-- Verify lifecycle:0005_environment
BEGIN;
SELECT uid, sealed FROM sandbox_env WHERE false;
ROLLBACK;
