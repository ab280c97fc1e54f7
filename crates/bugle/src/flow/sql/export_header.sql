-- When an export is made, and up to which number runs and jobs have been numbered.
SELECT clock_timestamp() AS exported_at, s.last_value AS last_number FROM bugle.job_id s;
