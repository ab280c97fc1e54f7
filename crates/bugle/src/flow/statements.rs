//! The SQL of flow, made once for the schema that is used.

crate::statements::statements!(
    /// Every statement of flow: one `.sql` file each. Those that end steps stand with those that end jobs.
    define,
    start_run,
    begin_steps,
    run_engine,
    send_signal,
    cancel_run,
    pause_run,
    resume_run,
    retry_step,
    resolve_step,
    skip_step,
    restart_from,
    show_run,
    show_steps,
    save_checkpoint,
    settle_step,
    renew_step,
    step_fate,
    has_flow,
);
