//! The SQL of the engine, made once for the schema that is used.

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// Every statement of the engine: one `.sql` file each, written for the schema `bugle`.
        #[derive(Debug, Clone)]
        pub struct Statements { $($name: SqlStr),* }

        impl Statements {
            /// `place` makes a file's SQL speak of the schema in use.
            pub fn new(place: impl Fn(&str) -> String) -> Self {
                // A schema's name is checked and is the only thing ever put into SQL.
                Self { $($name: AssertSqlSafe(place(include_str!(concat!("sql/", stringify!($name), ".sql")))).into_sql_str()),* }
            }

            $(pub(crate) fn $name(&self) -> SqlStr { self.$name.clone() })*
        }
    };
}

statements!(
    channel,
    backend,
    end_ghosts,
    end_out_of_reach,
    show,
    sit,
    leave,
    ring_if_marked,
    heartbeat,
    modes
);
