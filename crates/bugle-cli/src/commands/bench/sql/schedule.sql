-- Enqueues $2 jobs on queue $1, due from $3 on, each at a random instant of the $4 seconds after it. The last column: how many there are.
SELECT count(bugle.enqueue(queue => $1, kind => 'bench', payload => '{"due": true}',
  due_at => $3::timestamptz + make_interval(secs => $4 * random())))
FROM generate_series(1, $2);
