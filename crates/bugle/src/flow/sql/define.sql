-- Defines the workflow $1 (canonical form) with the hash $2 in namespace $3: its version, and whether it is new.
SELECT version, is_new
FROM bugle.define($1, $2, $3);
