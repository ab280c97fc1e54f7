-- All keys of instance $1 with their values, as its last turn left them.
SELECT key, value
FROM bugle.kv_of($1);
