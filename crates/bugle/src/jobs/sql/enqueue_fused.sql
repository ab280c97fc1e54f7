-- Enqueues jobs of several callers in namespace $1: of queues $2 and kinds $3, with payloads $4, due at $5 or in $6, of priorities $7,
-- with $8 attempts. Their ids, in that order.
SELECT bugle.enqueue_fused($1, $2, $3, $4, $5, $6, $7, $8);
