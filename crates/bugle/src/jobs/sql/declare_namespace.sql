-- Makes namespace $1. False: it was there already.
SELECT bugle.declare_namespace($1);
