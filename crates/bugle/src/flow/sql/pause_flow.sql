-- Pauses ($1: true), resumes (false) or lets inherit (NULL) namespace $2 or, if that is NULL, all that say nothing themselves.
SELECT bugle.pause_flow($1, $2);
