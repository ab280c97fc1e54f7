-- Notes that these API keys were used now, unless somebody has noted it within the last minute.
UPDATE bugle.api_key k
SET used_at = clock_timestamp()
WHERE k.id = ANY ($1) AND (k.used_at IS NULL OR k.used_at < clock_timestamp() - interval '1 minute');
