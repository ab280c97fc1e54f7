-- Was there ever an API key, in any namespace? Revoked and expired ones stay: that the last one is gone must not let everybody in.
SELECT EXISTS (SELECT FROM bugle.api_key);
