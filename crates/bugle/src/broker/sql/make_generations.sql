-- Makes the generations that come next. How many were made.
SELECT bugle.make_generations();
