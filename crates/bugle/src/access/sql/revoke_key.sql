-- Revokes the API key $2 of namespace $1. False: there is none.
SELECT bugle.revoke_api_key($1, $2);
