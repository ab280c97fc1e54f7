-- Enqueues $2 jobs on queue $1, each due at a random instant of the $4 seconds after $3. Returns how many.
SELECT count(bugle.enqueue(queue => $1, kind => 'bench', payload => '{"due": true}',
  due_at => $3::timestamptz + make_interval(secs => $4 * random())))
FROM generate_series(1, $2);
