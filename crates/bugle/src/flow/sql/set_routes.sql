-- Puts the rules $1 in the place of those that choose worker sets now.
SELECT bugle.set_routes($1);
