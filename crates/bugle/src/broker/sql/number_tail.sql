-- Numbers what users' transactions pushed and have committed. How many; -1: somebody else is at it.
SELECT bugle.number_tail();
