-- How often producers asked whether anybody sleeps, and how often somebody did and was rung for: PostgreSQL's own statistics of functions, in which
-- calls are counted of sessions with track_functions = 'pl' or 'all'. NULL: none was counted.
SELECT pg_stat_get_function_calls('bugle.ask_bell(int)'::regprocedure) AS checks,
  coalesce(pg_stat_get_function_calls('bugle.ring_bell(int)'::regprocedure), 0) AS sent,
  (SELECT d.stats_reset FROM pg_stat_database d WHERE d.datname = current_database()) AS since;
