-- Does what a job of kind $2 with payload $3 in the engine's queue $1 says.
SELECT bugle.run_engine($1, $2, $3);
