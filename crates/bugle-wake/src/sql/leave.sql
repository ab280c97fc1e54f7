-- Rule 8: lets go of the bells $1 and the marks $2; returns how many handovers were rung.
SELECT bugle.leave($1, $2);
