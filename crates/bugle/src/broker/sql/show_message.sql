-- The message at $2 of partition $1.
SELECT * FROM bugle.describe_messages(ARRAY[$1::int], ARRAY[$2::bigint]);
