-- The nodes of this database, of whatever schema, with their seats in this one.
SELECT regexp_replace(a.application_name, '^bugle listener( \(alert\))? ', '') AS node, a.pid, a.application_name LIKE '%(alert)%' AS alert,
  a.backend_start AS connected_at,
  array(SELECT s.bucket FROM bugle.seat s WHERE s.pid = a.pid AND s.seat = 'sentinel' ORDER BY 1) AS sentinel,
  array(SELECT s.bucket FROM bugle.seat s WHERE s.pid = a.pid AND s.seat = 'reserve' ORDER BY 1) AS reserve
FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.application_name LIKE 'bugle listener%'
ORDER BY a.backend_start, a.pid;
