-- Settles messages in the namespace with number $1: of partitions $2, for groups $3, under tokens $4, by seq $5 or key $6, as $7 says, with
-- errors $8. A row for each, in that order; behind them one for each queue that is to be looked at.
SELECT outcome, freed, queue_no, queue, partition FROM bugle.settle_messages($1, $2, $3, $4, $5, $6, $7, $8) ORDER BY o;
