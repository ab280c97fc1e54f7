-- A claim refuses any other isolation; a database's or role's own default must not decide.
SELECT set_config('default_transaction_isolation', 'read committed', false)
WHERE current_setting('default_transaction_isolation') <> 'read committed';
