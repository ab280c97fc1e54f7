-- Does the database answer?
SELECT 1;
