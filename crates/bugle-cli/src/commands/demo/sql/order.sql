-- Somebody orders $1. Returns the order's number.
INSERT INTO bugle_demo.orders (item)
VALUES ($1)
RETURNING id;
