//! The SQL of the provider, made once for the schema that is used.

use bugle::name::SchemaName;
use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// Every statement of the provider: one `.sql` file each.
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
    check_read_committed,
    claim_turns,
    ack_turn,
    release_turn,
    renew_turn,
    enqueue_messages,
    enqueue_work,
    claim_work,
    ack_work,
    renew_work,
    release_work,
    renew_sessions,
    sweep_sessions,
    read_history,
    read_execution,
    append_history,
    custom_status,
    kv_value,
    kv_values,
    instance_stats,
    list_instances,
    list_executions,
    instance_info,
    execution_info,
    system_metrics,
    queue_depths,
    stats,
    list_children,
    parent_of,
    tree_of,
    delete_instances,
    delete_finished,
    prune,
    find_instances,
    finished_groups,
    finished_roots,
);
