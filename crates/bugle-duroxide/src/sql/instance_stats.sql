-- How large instance $1 is, and the first event of its current execution.
SELECT
  (SELECT count(*) FROM bugle.history h WHERE h.instance = i.id AND h.execution = i.execution) AS events,
  (SELECT coalesce(sum(octet_length(h.data)), 0)::bigint FROM bugle.history h WHERE h.instance = i.id AND h.execution = i.execution) AS event_bytes,
  (SELECT h.data FROM bugle.history h WHERE h.instance = i.id AND h.execution = i.execution AND h.event = 1) AS first_event,
  (SELECT count(*) FROM bugle.kv_of(i.id)) AS keys,
  (SELECT coalesce(sum(octet_length(k.value)), 0)::bigint FROM bugle.kv_of(i.id) k) AS value_bytes
FROM bugle.instance i
WHERE i.id = $1;
