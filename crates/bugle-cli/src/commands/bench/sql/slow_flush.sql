-- Every commit of this session waits 2 ms before its flush, even alone.
SET commit_delay = 2000;
SET commit_siblings = 0;
