-- Lets nobody else change settings or rules until the transaction ends.
SELECT bugle.setting_of(NULL);
