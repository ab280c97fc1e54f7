-- Notes that file $2 of set $1 was applied.
INSERT INTO bugle.migration (set, version, name, checksum)
VALUES ($1, $2, $3, $4);
