-- Makes an API key: namespace $1, name $2, hash of its secret $3, scopes $4, lifetime $5 (NULL: for ever).
SELECT k.id, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.used_at, 'active' AS state
FROM bugle.create_api_key($1, $2, $3, $4, $5) k;
