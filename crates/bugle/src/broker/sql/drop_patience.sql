-- How long this session waits for others before it gives up.
SET lock_timeout = '500ms';
