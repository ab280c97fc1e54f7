-- Writes the payloads $1.
INSERT INTO bench.floor (payload)
SELECT payload FROM unnest($1::jsonb[]) AS payload;
