BEGIN;
SELECT head_place FROM log_take_heads('{}', '{}', false);
ROLLBACK;
