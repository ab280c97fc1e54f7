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

/// Namespaces, queues, jobs, messages, API keys and workflows.
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
        9 "0009" "ends",
        10 "0010" "dead",
        11 "0011" "inspect",
        12 "0012" "broker",
        13 "0013" "push",
        14 "0014" "pop",
        15 "0015" "settle_messages",
        16 "0016" "tail",
        17 "0017" "generations",
        18 "0018" "operate_messages",
        19 "0019" "access",
        20 "0020" "maintenance",
        21 "0021" "flow",
        22 "0022" "define",
        23 "0023" "go_on",
        24 "0024" "start",
        25 "0025" "settle_steps",
        26 "0026" "engine",
        27 "0027" "audit_flow",
        28 "0028" "operate_flow",
        29 "0029" "inspect_flow",
        30 "0030" "work_steps",
        31 "0031" "coordinate",
        32 "0032" "limit_and_route",
        33 "0033" "keep_flow",
    ],
    next: "run `bugle migrate up`",
};
