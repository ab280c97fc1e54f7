-- The place and the payload of the newest message of partition $2 with key $3, or with that id, in the namespace with number $1. No row: none.
SELECT seq, payload FROM bugle.find_message($1, $2, $3);
