-- How many jobs of queue number $1 go before the ready one ($2, $3, $4), counted up to $5.
SELECT bugle.ahead_of($1, $2, $3, $4, $5);
