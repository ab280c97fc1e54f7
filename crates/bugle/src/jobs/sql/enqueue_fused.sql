-- Enqueues jobs of several callers in namespace $1 and queue $2: of kinds $3, with payloads $4, of priorities $5, with $6 attempts. Their ids,
-- in that order.
SELECT bugle.enqueue_fused($1, $2, $3, $4, $5, $6);
