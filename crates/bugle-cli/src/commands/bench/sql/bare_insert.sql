-- Writes the payload $1.
INSERT INTO bench.bare (payload) VALUES ($1) RETURNING id;
