-- Messages and work that nobody has claimed.
SELECT
  (SELECT count(*) FROM bugle.message WHERE token IS NULL) AS messages,
  (SELECT count(*) FROM bugle.work WHERE token IS NULL) AS work;
