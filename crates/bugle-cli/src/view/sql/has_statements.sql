-- Are statements counted here? The extension must be there and its library loaded.
SELECT to_regclass('pg_stat_statements') IS NOT NULL
  AND current_setting('shared_preload_libraries') LIKE '%pg_stat_statements%';
