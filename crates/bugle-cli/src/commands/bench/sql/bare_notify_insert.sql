-- Writes the payload $1; a trigger rings.
INSERT INTO bench.bare_notify (payload) VALUES ($1) RETURNING id;
