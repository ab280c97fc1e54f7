-- Holds the live sessions of the owners $1 for $2, but for those idle for $3.
SELECT bugle.renew_sessions($1, $2, $3);
