-- Who may do what over the network: API keys.

-- A key belongs to one namespace. Only the hash of its secret is here: 256 random bits need no salt and no slow hash, and whoever reads
-- this table cannot use what it says.
CREATE TABLE bugle.api_key (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  hash bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),          -- SHA-256 of the whole secret
  namespace int NOT NULL REFERENCES bugle.namespace,
  name text COLLATE "C" NOT NULL,
  scopes jsonb NOT NULL CHECK (jsonb_array_length(scopes) BETWEEN 1 AND 100),   -- [{"queues": prefix, "rights": [push | pop | inspect | admin]}]
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz,                                              -- NULL: never
  revoked_at timestamptz,
  used_at timestamptz,                                                 -- to the minute
  CONSTRAINT api_key_name_bytes CHECK (octet_length(name) BETWEEN 1 AND 255),
  CONSTRAINT api_key_name_printable CHECK (name !~ '[[:cntrl:]]')
);
-- A revoked key stays, so that its last use can be read; its name is free.
CREATE UNIQUE INDEX api_key_name ON bugle.api_key (namespace, name) WHERE revoked_at IS NULL;

-- Makes a key; its row.
CREATE FUNCTION bugle.create_api_key(p_namespace int, p_name text, p_hash bytea, p_scopes jsonb, p_lifetime interval) RETURNS SETOF bugle.api_key LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY
  INSERT INTO bugle.api_key (namespace, name, hash, scopes, expires_at) VALUES (p_namespace, p_name, p_hash, p_scopes, now() + p_lifetime)
  ON CONFLICT (namespace, name) WHERE revoked_at IS NULL DO NOTHING
  RETURNING *;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is an API key "%" already', left(p_name, 80)
      USING ERRCODE = 'unique_violation', HINT = 'Revoke it first, or choose another name.';
  END IF;
  PERFORM bugle.ring_control();   -- a server that had no keys lets everybody in
END $$;

-- Revokes a key; false: there is none of that name that is not revoked. Nodes keep what they know of a key for some seconds: they are told.
CREATE FUNCTION bugle.revoke_api_key(p_namespace int, p_name text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  UPDATE bugle.api_key SET revoked_at = now() WHERE namespace = p_namespace AND name = p_name AND revoked_at IS NULL;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM bugle.ring_control();
  RETURN true;
END $$;
