//! Finding PostgreSQL on this machine.

use super::account::Account;
use super::{Error, Options};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A PostgreSQL installation that has been seen to run.
#[derive(Debug, Clone)]
pub(super) struct Binaries {
    pub(super) bin_dir: PathBuf,
    pub(super) major: u32,
    library_dir: Option<PathBuf>,
}

impl Binaries {
    /// The installation named by `options` or `BUGLE_PG_BIN`, else the first of PATH, Debian's and
    /// Homebrew's places; among those, one that fits `major` (the version of existing data).
    pub(super) fn find(options: &Options, account: &Account, major: Option<u32>) -> Result<Self, Error> {
        let named = options.bin_dir.clone().or_else(|| std::env::var_os("BUGLE_PG_BIN").map(PathBuf::from));
        if let Some(bin_dir) = named {
            return Self::try_at(&bin_dir, account);
        }
        candidates()
            .iter()
            .filter_map(|bin_dir| Self::try_at(bin_dir, account).ok())
            .find(|found| major.is_none_or(|wanted| wanted == found.major))
            .ok_or(Error::NoBinaries { major })
    }

    fn try_at(bin_dir: &Path, account: &Account) -> Result<Self, Error> {
        let bad = |reason: String| Error::BadBinaries {
            bin_dir: bin_dir.to_owned(),
            user: account.name.clone(),
            reason,
        };
        // A folder of links (/usr/local/bin) is followed to where the siblings are.
        let postgres = bin_dir.join("postgres").canonicalize().map_err(|e| bad(format!("postgres: {e}")))?;
        let bin_dir = postgres.parent().unwrap_or(bin_dir).to_owned();
        if !bin_dir.join("initdb").is_file() {
            return Err(bad("there is no initdb".into()));
        }
        let library_dir = library_dir(&bin_dir);
        let mut found = Self { bin_dir, major: 0, library_dir };
        // Run as the server's user: a build in somebody's home may be closed to that user.
        let answer = found
            .command(account, "postgres")
            .arg("--version")
            .output()
            .map_err(|e| bad(format!("postgres: {e}")))?;
        let said = String::from_utf8_lossy(&answer.stdout);
        found.major = major_of(&said).ok_or_else(|| {
            bad(format!("postgres --version: {}", String::from_utf8_lossy(&answer.stderr).trim()))
        })?;
        Ok(found)
    }

    /// A command that runs one of the installation's programs as `account`.
    pub(super) fn command(&self, account: &Account, program: &str) -> Command {
        let mut command = account.command(self.bin_dir.join(program));
        if let Some(dir) = &self.library_dir {
            command.env("LD_LIBRARY_PATH", dir);
        }
        command
    }
}

/// The `lib` beside `bin` in a relocatable build, whose loader does not look there by itself.
fn library_dir(bin_dir: &Path) -> Option<PathBuf> {
    let dir = bin_dir.parent()?.join("lib");
    // A system folder is on the loader's path already, and named again it would go before the rest.
    let of_the_system = ["/usr", "/lib", "/lib64", "/bin"].iter().any(|system| dir.starts_with(system));
    (dir.is_dir() && !of_the_system).then_some(dir)
}

fn candidates() -> Vec<PathBuf> {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<_> = std::env::split_paths(&on_path).collect();
    found.extend(newest_first("/usr/lib/postgresql", "")); // Debian, Ubuntu
    found.extend(["/usr/pgsql-18/bin", "/usr/pgsql-17/bin", "/usr/pgsql-16/bin"].map(PathBuf::from)); // PGDG's RPMs
    for cellar in ["/opt/homebrew/opt", "/usr/local/opt", "/home/linuxbrew/.linuxbrew/opt"] {
        found.extend(newest_first(cellar, "postgresql@"));
    }
    found.retain(|dir| dir.join("postgres").is_file());
    found
}

/// `<parent>/<prefix><number>/bin`, the highest number first.
fn newest_first(parent: &str, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(parent) else { return Vec::new() };
    let numbered: BTreeMap<u32, PathBuf> = entries
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?;
            Some((number, entry.path().join("bin")))
        })
        .collect();
    numbered.into_values().rev().collect()
}

/// `postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)` is 15; `18beta1` is 18.
fn major_of(version: &str) -> Option<u32> {
    let number = version.split_once("(PostgreSQL) ")?.1;
    let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    number[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{library_dir, major_of};
    use std::path::Path;

    #[test]
    fn the_major_version_is_read_from_any_build() {
        assert_eq!(major_of("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n"), Some(15));
        assert_eq!(major_of("postgres (PostgreSQL) 18beta1"), Some(18));
        assert_eq!(major_of("cannot execute binary file"), None);
    }

    #[test]
    fn a_system_folder_is_not_put_on_the_loaders_path() {
        assert_eq!(library_dir(Path::new("/usr/bin")), None);
        assert_eq!(library_dir(Path::new("/usr/lib/postgresql/15/bin")), None);
    }
}
