-- The API keys of namespace $1, those that were revoked included, the newest last.
SELECT k.id, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.used_at,
  CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked' WHEN k.expires_at <= clock_timestamp() THEN 'expired' ELSE 'active' END AS state
FROM bugle.api_key k
WHERE k.namespace = $1
ORDER BY k.id;
