//! How the SQL of a part becomes statements for the schema that is used.

/// Declares a struct with one statement for each `.sql` file beside the file that calls this.
macro_rules! statements {
    ($(#[$doc:meta])* $($name:ident),* $(,)?) => {
        $(#[$doc])*
        pub(crate) struct Statements { $($name: ::sqlx::SqlStr),* }

        impl Statements {
            pub(crate) fn new(schema: &$crate::name::SchemaName) -> Self {
                use ::sqlx::SqlSafeStr as _;
                // The schema's name is checked and is the only thing ever put into SQL.
                Self { $($name: ::sqlx::AssertSqlSafe(schema.place_in(include_str!(concat!("sql/", stringify!($name), ".sql")))).into_sql_str()),* }
            }

            $(pub(crate) fn $name(&self) -> ::sqlx::SqlStr { self.$name.clone() })*
        }
    };
}
pub(crate) use statements;
