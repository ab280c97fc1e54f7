-- The API keys with these hashes that may be used now, of any namespace, and how many seconds each has left. No row: there is none, or not any more.
SELECT k.hash, k.id, k.name, n.name AS namespace, k.scopes, extract(epoch FROM k.expires_at - clock_timestamp())::float8 AS seconds_left
FROM bugle.api_key k
JOIN bugle.namespace n ON n.id = k.namespace
WHERE k.hash = ANY ($1) AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp());
