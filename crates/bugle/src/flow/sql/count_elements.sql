-- How many elements of the maps of run $1 are in which state.
SELECT s.no, s.state, count(*) AS elements
FROM bugle.step s
WHERE s.run = $1 AND s.idx > 0
GROUP BY s.no, s.state
ORDER BY s.no, array_position('{pending,ready,running,waiting,succeeded,failed,skipped,cancelled}', s.state);
