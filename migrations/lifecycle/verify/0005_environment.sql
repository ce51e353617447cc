-- Verify lifecycle:0005_environment
BEGIN;
SELECT uid, sealed FROM sandbox_env WHERE false;
SELECT uid, epoch, busy, because, last_activity_us FROM sandbox_usage WHERE false;
ROLLBACK;
