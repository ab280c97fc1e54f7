-- Instance $1 and everything below it.
SELECT bugle.tree_of($1);
