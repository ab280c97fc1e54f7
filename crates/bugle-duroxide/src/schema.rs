//! The provider's tables and functions.

use bugle::pg::migrate::{File, Set};

macro_rules! file {
    ($version:literal $name:literal $path:literal) => {
        File { version: $version, name: $name, sql: include_str!(concat!("../../../migrations/", $path)) }
    };
}

/// The migrations of the provider. They install alone, into any schema that has none of Bugle's other sets. The bell is the core set's own
/// file, word for word: there is one text of it.
pub static DUROXIDE: Set = Set {
    name: "duroxide",
    files: &[
        file!(1 "queues" "duroxide/0001_queues.sql"),
        file!(2 "wake" "core/0008_wake.sql"),
        file!(3 "tables" "duroxide/0003_tables.sql"),
        file!(4 "enqueue" "duroxide/0004_enqueue.sql"),
        file!(5 "turns" "duroxide/0005_turns.sql"),
        file!(6 "end_turns" "duroxide/0006_end_turns.sql"),
        file!(7 "work" "duroxide/0007_work.sql"),
        file!(8 "history" "duroxide/0008_history.sql"),
        file!(9 "manage" "duroxide/0009_manage.sql"),
    ],
    // The bugle command has no part in it: the tables belong to the programs that run the orchestrations.
    next: "start one program whose PostgresProvider may migrate (Options::migrate is Policy::Apply, the default), as a role that may change the schema",
};
