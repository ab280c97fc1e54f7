-- Empties the bare tables, dead rows and all.
TRUNCATE bench.bare, bench.bare_notify, bench.floor;
