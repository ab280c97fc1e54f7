-- Starts a run of definition $1 with input $2 and key $3, which counts for $4, of version $5, with priority $6 and tags $7, in namespace $8, for actor $9.
SELECT bugle.start_run($1, $2, $3, $4, $5, $6, $7, $8, $9);
