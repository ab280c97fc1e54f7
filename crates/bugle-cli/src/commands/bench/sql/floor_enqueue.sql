-- Writes the payloads $1.
INSERT INTO bugle.floor (payload)
SELECT payload FROM unnest($1::jsonb[]) AS payload;
