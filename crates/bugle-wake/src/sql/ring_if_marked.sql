-- Rules 7 and 11: rings a handover in each of the buckets $1 that has a reserve.
SELECT bugle.ring_if_marked($1);
