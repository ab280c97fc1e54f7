-- What the log of run $1 does not say of its steps: under which lease they ran, and what they keep for their next attempt and for people.
SELECT (jsonb_build_object('no', s.no, 'idx', s.idx, 'token', s.token)
  || CASE WHEN s.checkpoint IS NULL THEN '{}' ELSE jsonb_build_object('checkpoint', s.checkpoint) END
  || CASE WHEN s.progress IS NULL THEN '{}' ELSE jsonb_build_object('progress', s.progress) END)::text
FROM bugle.step s
WHERE s.run = $1 AND (s.token IS NOT NULL OR s.checkpoint IS NOT NULL OR s.progress IS NOT NULL)
ORDER BY s.no, s.idx;
