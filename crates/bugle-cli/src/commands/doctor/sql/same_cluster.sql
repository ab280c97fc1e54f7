-- Do the job rows come from this very cluster?
SELECT system_identifier = (SELECT system_identifier FROM pg_control_system())
FROM bugle.meta;
