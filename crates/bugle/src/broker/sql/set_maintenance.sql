-- Refuses pushes ($1) or pops ($2), or takes them again; NULL leaves it as it is. What is so now.
SELECT push, pop FROM bugle.set_maintenance($1, $2);
