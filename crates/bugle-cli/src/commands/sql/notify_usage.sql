-- How full PostgreSQL's queue of notifications is: 0 to 1.
SELECT pg_notification_queue_usage();
