-- $2 jobs were copied into queue number $1.
SELECT bugle.copied($1, $2);
