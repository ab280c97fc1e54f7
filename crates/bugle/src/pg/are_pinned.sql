-- Did the settings of a connection for claims take effect?
SELECT bool_and(current_setting('enable_' || way) = 'off')
  AND current_setting('synchronous_commit') = 'off' AND current_setting('plan_cache_mode') = 'force_generic_plan' AND current_setting('jit') = 'off'
FROM unnest(ARRAY['seqscan', 'bitmapscan', 'hashjoin', 'mergejoin']) AS way;
