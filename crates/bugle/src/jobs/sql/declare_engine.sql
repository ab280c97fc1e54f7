-- The number of the queue of what Bugle itself does in the workflows of namespace $1, made on first use.
SELECT bugle.declare_flow($1);
