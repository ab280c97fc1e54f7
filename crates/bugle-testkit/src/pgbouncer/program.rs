//! Where pgbouncer is, and which.

use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names a program to use whatever its version is.
const VARIABLE: &str = "BUGLE_PGBOUNCER";
/// The first that passes prepared statements on in transaction mode.
pub(super) const PREPARED_STATEMENTS_SINCE: (u32, u32) = (1, 21);

#[derive(Debug)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) version: (u32, u32),
}

impl Program {
    pub(super) fn find() -> anyhow::Result<Self> {
        if let Some(path) = std::env::var_os(VARIABLE) {
            return Self::at(Path::new(&path)).with_context(|| format!("{VARIABLE} names no pgbouncer"));
        }
        let found: Vec<Self> = places().iter().filter_map(|path| Self::at(path)).collect();
        let seen: Vec<_> = found
            .iter()
            .map(|it| format!("{} is {}.{}", it.path.display(), it.version.0, it.version.1))
            .collect();
        found.into_iter().find(|it| it.version >= PREPARED_STATEMENTS_SINCE).with_context(|| {
            let (major, minor) = PREPARED_STATEMENTS_SINCE;
            format!(
                "no pgbouncer of version {major}.{minor} or newer (found: {seen:?}): run scripts/setup tests"
            )
        })
    }

    /// `None`: there is none that runs.
    fn at(path: &Path) -> Option<Self> {
        let said = Command::new(path).arg("--version").output().ok()?;
        let version = version(&String::from_utf8_lossy(&said.stdout))?;
        Some(Self { path: path.to_owned(), version })
    }
}

/// The places where scripts/setup looks, in its order.
fn places() -> Vec<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/pgbouncer/pgbouncer");
    // Debian's is in /usr/sbin, which is not on everybody's PATH.
    vec!["pgbouncer".into(), "/usr/sbin/pgbouncer".into(), built]
}

/// `PgBouncer 1.24.1` and more lines.
fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.lines().next()?.strip_prefix("PgBouncer ")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn a_version_is_read_from_the_first_line() {
        assert_eq!(version("PgBouncer 1.24.1\nlibevent 2.1.12-stable\n"), Some((1, 24)));
        assert_eq!(version("something else 1.2"), None);
    }
}
