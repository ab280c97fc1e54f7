-- Writes payloads, one a line.
COPY bench.floor (payload) FROM STDIN
