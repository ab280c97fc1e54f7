-- Makes job $1 ready now. NULL: it is neither scheduled nor dead.
SELECT bugle.retry($1);
