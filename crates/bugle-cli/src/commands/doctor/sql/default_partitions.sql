-- Have rows gone where no day's partition was made for them?
SELECT EXISTS (SELECT FROM bugle.history_default) OR EXISTS (SELECT FROM bugle.failure_default) OR EXISTS (SELECT FROM bugle.flow_event_default);
