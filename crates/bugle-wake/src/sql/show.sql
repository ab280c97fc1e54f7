-- The name $1 under which this session stands in the list of sessions.
SELECT set_config('application_name', $1, false);
