-- Throws dead letters of queue $1 away, of group $2, partition $3, with key $4 unless those are NULL.
DELETE FROM bugle.dead_message d
WHERE d.queue = $1 AND ($2::text IS NULL OR d.group_name = $2) AND ($3::int IS NULL OR d.part = $3) AND ($4::text IS NULL OR coalesce(d.key, d.id::text) = $4);
