-- Pauses queue $1 of namespace $2. False: it was paused already.
SELECT bugle.pause($1, $2);
