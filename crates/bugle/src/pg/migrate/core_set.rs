use super::{File, Set};

macro_rules! files {
    ($($version:literal $name:literal),* $(,)?) => {
        &[$(File {
            version: $version,
            name: $name,
            sql: include_str!(concat!("../../../../../migrations/core/000", $version, "_", $name, ".sql")),
        }),*]
    };
}

/// Namespaces, queues and jobs.
pub static CORE: Set = Set {
    name: "core",
    files: files![
        1 "namespaces_and_queues",
        2 "jobs",
        3 "enqueue",
        4 "claim",
        5 "settle",
        6 "operate",
        7 "sweep",
        8 "wake",
        9 "ends",
    ],
};
