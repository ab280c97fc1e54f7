-- Rule 5: takes a seat in each of the buckets $1 (ascending); $2: is it marked already?
SELECT bugle.sit($1, $2);
