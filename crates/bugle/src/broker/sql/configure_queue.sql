-- Tells queue $1 of namespace $3 its options $2, all of them. Its number. Fails with BGL04 when it holds jobs.
SELECT bugle.configure_queue($1, $2, $3);
