//! The SQL of jobs, made once for the schema that is used.

use crate::name::SchemaName;
use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// Every statement of jobs: one `.sql` file each.
        pub(crate) struct Statements { $($name: SqlStr),* }

        impl Statements {
            pub(crate) fn new(schema: &SchemaName) -> Self {
                // The schema's name is checked and is the only thing ever put into SQL.
                Self { $($name: AssertSqlSafe(schema.place_in(include_str!(concat!("sql/", stringify!($name), ".sql")))).into_sql_str()),* }
            }

            $(pub(crate) fn $name(&self) -> SqlStr { self.$name.clone() })*
        }
    };
}

statements!(
    enqueue,
    enqueue_plain,
    enqueue_many,
    enqueue_fused,
    copy_jobs,
    copied,
    declare_namespace,
    list_namespaces,
    find_namespace,
    declare_queue,
    look,
    quick_look,
    bodies,
    renew,
    ack,
    ack_claims,
    ack_in,
    held,
    locked,
    fail,
    release,
    snooze,
    cancel,
    retry,
    look_ends,
    queue_of_job,
    find_queue,
    sweep,
    make_partitions,
    drop_partitions,
    trim,
    list_jobs,
    show_job,
    list_failures,
    list_queues,
    show_queue,
    list_holders,
    ahead_of,
    list_dead,
    find_dead,
    redrive_dead,
    purge_dead,
    producer_rings,
    set_mode,
    pause,
    resume,
);
