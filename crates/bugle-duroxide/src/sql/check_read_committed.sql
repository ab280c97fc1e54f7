-- Is this session in the isolation level that the provider needs? Fails with BGL03 when it is not.
SELECT bugle.check_read_committed();
