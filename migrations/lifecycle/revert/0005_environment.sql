-- Revert lifecycle:0005_environment
BEGIN;
DROP TABLE sandbox_env;
COMMIT;
