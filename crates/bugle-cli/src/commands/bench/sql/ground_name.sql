-- The name of a benchmark's database: that of this one, of which $1 characters are kept, and $2. Plain, and quoted for use as a name.
SELECT name, quote_ident(name)
FROM (SELECT left(current_database(), $1) || '_bench_' || $2 AS name) n;
