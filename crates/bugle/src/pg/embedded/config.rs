//! The server's settings.

use super::account::Account;
use super::data_dir::write_file;
use super::{Error, Options};
use std::collections::BTreeMap;
use std::path::Path;

/// The file in the cluster that holds them. `postgresql.conf` includes it, and `ALTER SYSTEM` wins over it.
pub(super) const FILE: &str = "bugle.conf";

/// The library behind `pg_stat_statements`.
pub(super) const STATISTICS: &str = "pg_stat_statements";

/// A small machine that somebody works on, but no accepted work is ever lost on it.
const DEFAULTS: [(&str, &str); 14] = [
    // PostgreSQL's own defaults, said aloud: Bugle's promises rest on them.
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "on"),
    ("shared_buffers", "256MB"),
    ("max_wal_size", "2GB"),
    ("max_connections", "200"),
    ("jit", "off"), // short statements: compiling them costs more than it saves
    ("password_encryption", "scram-sha-256"),
    ("timezone", "UTC"),
    ("log_timezone", "UTC"),
    ("log_line_prefix", "%m [%p] %q%a "),
    ("log_checkpoints", "off"),
    // The log is the server's standard error, in a file that Bugle opened.
    ("logging_collector", "off"),
    ("log_destination", "stderr"),
];

/// Writes the settings file of the cluster in `data`.
pub(super) fn write(
    data: &Path,
    account: &Account,
    options: &Options,
    statistics: bool,
) -> Result<(), Error> {
    let mut settings: BTreeMap<&str, &str> = DEFAULTS.into();
    if statistics {
        settings.insert("shared_preload_libraries", STATISTICS);
    }
    settings.extend(options.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())));

    let mut text = String::from("# Written by Bugle at every start. To change a setting: ALTER SYSTEM.\n");
    for (name, value) in settings {
        text.push_str(&line(name, value)?);
    }
    write_file(account, &data.join(FILE), &text)
}

/// Whether the owner chose the preloaded libraries, in which case Bugle leaves them alone.
pub(super) fn preload_is_chosen(options: &Options) -> bool {
    options.settings.iter().any(|(name, _)| name == "shared_preload_libraries")
}

fn line(name: &str, value: &str) -> Result<String, Error> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if name.is_empty() || !name.chars().all(legal) {
        return Err(Error::BadSetting { name: name.to_owned() });
    }
    let escaped = value.replace('\\', "\\\\").replace('\'', "''").replace('\n', "\\n");
    Ok(format!("{name} = '{escaped}'\n"))
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_value_cannot_end_its_quotes() {
        assert_eq!(line("search_path", r"it's \ here").unwrap(), "search_path = 'it''s \\\\ here'\n");
        assert_eq!(line("a.b", "x\nfsync = off").unwrap(), "a.b = 'x\\nfsync = off'\n");
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        let refused = line("fsync = off #", "on").unwrap_err().to_string();
        assert!(refused.contains("fsync = off #"), "{refused}");
    }
}
