-- Definition $1 as an export has it.
SELECT jsonb_build_object('name', d.name, 'version', d.version, 'hash', encode(d.hash, 'hex'), 'defined_at', d.defined_at, 'spec', d.spec)::text
FROM bugle.definition d
WHERE d.id = $1;
