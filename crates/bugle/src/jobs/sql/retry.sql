-- Makes job $1 ready now. NULL: it is neither scheduled nor dead in namespace $2.
SELECT bugle.retry($1, $2);
