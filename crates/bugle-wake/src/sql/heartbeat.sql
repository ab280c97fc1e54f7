-- Rule 10: the session's backend, the version of control, and how full PostgreSQL's queue of notifications is.
SELECT backend, control, notify_usage FROM bugle.heartbeat();
