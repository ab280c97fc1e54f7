use super::{File, Set};

macro_rules! files {
    ($($version:literal $digits:literal $name:literal),* $(,)?) => {
        &[$(File {
            version: $version,
            name: $name,
            sql: include_str!(concat!("../../../../../migrations/core/", $digits, "_", $name, ".sql")),
        }),*]
    };
}

/// Namespaces, queues and jobs.
pub static CORE: Set = Set {
    name: "core",
    files: files![
        1 "0001" "namespaces_and_queues",
        2 "0002" "jobs",
        3 "0003" "enqueue",
        4 "0004" "claim",
        5 "0005" "settle",
        6 "0006" "operate",
        7 "0007" "sweep",
        8 "0008" "wake",
        10 "0010" "dead",
        11 "0011" "inspect",
    ],
};
