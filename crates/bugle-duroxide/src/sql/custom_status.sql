-- The custom status of instance $1, if it is newer than version $2.
SELECT custom_status, custom_status_version
FROM bugle.instance
WHERE id = $1 AND custom_status_version > $2;
