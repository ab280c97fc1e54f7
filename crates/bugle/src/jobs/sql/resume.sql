-- Resumes queue $1 of namespace $2. False: it was not paused.
SELECT bugle.resume($1, $2);
