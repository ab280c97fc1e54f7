-- Worker $1 is about to begin job $3 of its claim $2: one that was lost before, at its last attempt.
INSERT INTO bugle.begun (worker, token, id)
VALUES ($1, $2, $3)
ON CONFLICT DO NOTHING;
