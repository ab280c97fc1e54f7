//! Who the server runs as.

use super::Error;
use super::error::At as _;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The user of the server's processes and files.
#[derive(Debug, Clone)]
pub(super) struct Account {
    /// For messages.
    pub(super) name: String,
    /// Set when Bugle is root: PostgreSQL refuses to be.
    switch: Option<(u32, u32)>,
}

impl Account {
    /// Bugle's own user; as root, the owner of `dir` unless that is root, else `postgres`, else `nobody`.
    ///
    /// The owner comes first so that a folder an ordinary user made stays theirs when root
    /// starts Bugle on it once.
    pub(super) fn choose(dir: &Path) -> Result<Self, Error> {
        let me = rustix::process::geteuid();
        if !me.is_root() {
            return Ok(Self { name: format!("number {}", me.as_raw()), switch: None });
        }
        if let Ok(found) = fs::metadata(dir)
            && found.uid() != 0
        {
            return Ok(Self {
                name: format!("number {}", found.uid()),
                switch: Some((found.uid(), found.gid())),
            });
        }
        let passwd = fs::read_to_string("/etc/passwd").at("read", Path::new("/etc/passwd"))?;
        ["postgres", "nobody"].iter().find_map(|name| entry(&passwd, name)).ok_or(Error::NoAccount)
    }

    /// A command as this user, in its own process group, with nothing of Bugle's environment but PATH.
    ///
    /// The own group keeps a terminal's Ctrl-C from reaching PostgreSQL before Bugle decides the order.
    /// The working folder is `/` because Bugle's own may be closed to this user. `PG*` variables would
    /// change what `initdb` and the server do, and the C locale keeps their messages readable to us.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = own_command(program);
        if let Some((uid, gid)) = self.switch {
            command.uid(uid).gid(gid); // std also drops root's supplementary groups
        }
        command
    }

    /// Gives `path` to this user.
    pub(super) fn own(&self, path: &Path) -> Result<(), Error> {
        match self.switch {
            // Not followed if a link: the folder may belong to somebody who would like us to.
            Some((uid, gid)) => lchown(path, Some(uid), Some(gid)).at("change the owner of", path),
            None => Ok(()),
        }
    }

    /// Whether this user can enter and write `dir`.
    pub(super) fn reaches(&self, dir: &Path) -> Result<bool, Error> {
        let probe = self
            .command("sh")
            .args(["-c", r#"cd "$1" 2>/dev/null && [ -w . ]"#, "sh"])
            .arg(dir)
            .status()
            .at("run", Path::new("sh"))?;
        Ok(probe.success())
    }
}

/// As [`Account::command`], but as Bugle's own user.
pub(super) fn own_command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    command
        .env_clear()
        .env("PATH", path)
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .current_dir("/")
        .stdin(Stdio::null())
        .process_group(0);
    command
}

fn entry(passwd: &str, name: &str) -> Option<Account> {
    let mut fields =
        passwd.lines().map(|line| line.split(':')).find(|line| line.clone().next() == Some(name))?;
    let uid = fields.nth(2)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    Some(Account { name: name.to_owned(), switch: Some((uid, gid)) })
}

#[cfg(test)]
mod tests {
    use super::entry;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let passwd =
            "root:x:0:0::/root:/bin/sh\npostgres2:x:5:6::/:/bin/sh\npostgres:x:101:104:a:/var:/bin/bash\n";
        assert_eq!(entry(passwd, "postgres").unwrap().switch, Some((101, 104)));
        assert!(entry(passwd, "nobody").is_none());
    }
}
