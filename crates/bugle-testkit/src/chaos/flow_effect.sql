INSERT INTO bugle.chaos_effect (run, step, attempt) VALUES ($1, $2, $3)
