-- Writes ready jobs as fast as PostgreSQL takes rows. Nobody is told of them: bugle.copied does that, in the same transaction.
COPY bugle.job (queue, lane, max_attempts, kind, payload) FROM STDIN (FORMAT binary)
