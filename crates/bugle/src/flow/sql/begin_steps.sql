-- Says that worker $7 begins the steps of runs $1, numbers $2, elements $3, epochs $4, in attempts $5, whose jobs it holds under tokens $6.
SELECT n, verdict, step, definition, version, created_at, attempts, timeout_ms, input, parents, element, checkpoint, ready_us
FROM bugle.begin_steps($1, $2, $3, $4, $5, $6, $7);
