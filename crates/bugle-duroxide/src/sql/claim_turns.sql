-- One look for turns: up to $1 instances for $2; with $3 only those whose pinned version is from $4 to $5. History that node $6 wrote is left out.
SELECT instance, token::text AS token, attempt, name, version, execution, incarnation, last_event,
  messages, history, kv_keys, kv_values, kv_updated_ms, again_us, passed_over, is_dry, late_us
FROM bugle.claim_turns($1, $2, $3, $4, $5, $6);
