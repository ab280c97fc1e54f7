-- What has been applied of set $1, in order.
SELECT version, name, checksum, applied_at
FROM bugle.migration
WHERE set = $1
ORDER BY version;
