-- The history of each of the instances $1, as far as it is not in memory: there is incarnation $2, execution $3, up to event $4 of it.
SELECT i.asked, h.incarnation, h.execution, h.last_event, h.whole, h.data
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS i (instance, incarnation, execution, event, asked)
CROSS JOIN LATERAL bugle.read_history(i.instance, i.incarnation, i.execution, i.event) AS h;
