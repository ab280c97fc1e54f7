//! The server's folder: its layout, its owner, its lock and its password.
//!
//! ```text
//! <dir>/            0700, the server's user
//!   bugle.lock      the pid of the Bugle that owns the folder, who holds an advisory lock on the file
//!   guests.lock     locked by every other process that uses the server (see guest.rs)
//!   stay.lock       the pid of the process that means to stay, who holds a lock on the file
//!   password        0600, of the superuser `bugle`
//!   data/           the database cluster; appears complete, by a rename
//!   socket/         the Unix socket (elsewhere when this path would be too long for one)
//!   server.log      what PostgreSQL says
//! ```

use super::Error;
use super::account::Account;
use super::error::At as _;
use super::options::Place;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

const LOCK: &str = "bugle.lock";

/// Longest path of a Unix socket: macOS has room for 104 bytes with the final zero, Linux for 108.
const SOCKET_PATH_BYTES_MAX: usize = 103;
const SOCKET_NAME_MAX: &str = ".s.PGSQL.65535";

/// The log is kept over restarts, but not for ever.
const LOG_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// A folder that this process owns for as long as it holds the value.
#[derive(Debug)]
pub(super) struct DataDir {
    pub(super) dir: PathBuf,
    pub(super) data: PathBuf,
    pub(super) log: PathBuf,
    pub(super) account: Account,
    pub(super) ephemeral: bool,
    /// Closed on exec (std opens every file so), or PostgreSQL would hold the lock after Bugle's death.
    _lock: File,
}

impl DataDir {
    /// Creates the folder if needed and takes its lock.
    pub(super) fn take(place: &Place) -> Result<Self, Error> {
        match place {
            Place::At(dir) => {
                prepare(dir)?;
                Self::take_at(dir, false)
            }
            Place::Ephemeral => {
                let dir = create_private(&std::env::temp_dir())?;
                Self::take_at(&dir, true).inspect_err(|_| {
                    let _ = fs::remove_dir_all(&dir); // there is no lifeline yet to do it
                })
            }
        }
    }

    fn take_at(dir: &Path, ephemeral: bool) -> Result<Self, Error> {
        let dir = dir.canonicalize().at("find", dir)?; // absolute, as the server sees it
        let account = Account::choose(&dir)?;
        let lock = lock(&dir)?;
        // Only now that the folder is known to be nobody else's.
        fs::set_permissions(&dir, Permissions::from_mode(0o700)).at("close to others", &dir)?;
        account.own(&dir)?;
        account.own(&dir.join(LOCK))?;
        if !account.reaches(&dir)? {
            return Err(Error::Unreachable { dir, user: account.name });
        }
        Ok(Self { data: dir.join("data"), log: dir.join("server.log"), dir, account, ephemeral, _lock: lock })
    }

    /// The major version that made the cluster; none while there is no cluster.
    pub(super) fn version(&self) -> Result<Option<u32>, Error> {
        let path = self.data.join("PG_VERSION");
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text.trim().parse().ok()),
            Err(missing) if missing.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(other) => Err(other).at("read", &path),
        }
    }

    /// Where the superuser's password is kept.
    pub(super) fn password_file(&self) -> PathBuf {
        self.dir.join("password")
    }

    /// The superuser's password; made up and stored the first time, before there is any data.
    pub(super) fn password(&self) -> Result<String, Error> {
        let file = self.password_file();
        match fs::read_to_string(&file) {
            Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
            Ok(_) | Err(_) if self.data.exists() => Err(Error::NoPassword { dir: self.dir.clone(), file }),
            _ => {
                let password = random_name::<24>();
                write_file(&self.account, &file, &format!("{password}\n"))?;
                Ok(password)
            }
        }
    }

    /// A private folder for the socket.
    pub(super) fn socket_dir(&self) -> Result<PathBuf, Error> {
        let inside = self.dir.join("socket");
        let dir = if inside.join(SOCKET_NAME_MAX).as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
            if !inside.is_dir() {
                DirBuilder::new().mode(0o700).create(&inside).at("create", &inside)?;
            }
            inside
        } else if std::env::temp_dir().as_os_str().len() < SOCKET_PATH_BYTES_MAX / 2 {
            create_private(&std::env::temp_dir())?
        } else {
            create_private(Path::new("/tmp"))?
        };
        self.account.own(&dir)?;
        Ok(dir)
    }

    /// Opens the log to append to; a long one is put aside first.
    pub(super) fn open_log(&self) -> Result<File, Error> {
        if fs::metadata(&self.log).is_ok_and(|log| log.len() > LOG_BYTES_MAX) {
            fs::rename(&self.log, self.dir.join("server.log.1")).at("rename", &self.log)?;
        }
        let file = private_file().create(true).append(true).open(&self.log).at("open", &self.log)?;
        self.account.own(&self.log)?;
        Ok(file)
    }
}

/// Removes what a killed server left: its lock file names a process id that may be somebody else's by
/// now, and PostgreSQL would believe it.
pub(super) fn clear_socket_dir(dir: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(dir).at("read", dir)? {
        let path = entry.at("read", dir)?.path();
        fs::remove_file(&path).at("remove", &path)?;
    }
    Ok(())
}

/// Makes sure that `dir` exists and may become ours.
pub(super) fn prepare(dir: &Path) -> Result<(), Error> {
    fs::create_dir_all(dir).at("create", dir)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).at("read", dir)? {
        names.push(entry.at("read", dir)?.file_name());
    }
    // Its mode and owner are about to change: `--data-dir /home/ann` must not do that to Ann's home.
    let ours = names.iter().any(|name| name == LOCK);
    // A volume of its own, or another Bugle is about to begin here.
    let empty = names.iter().all(|name| name == "lost+found" || name == "guests.lock" || name == "stay.lock");
    if ours || empty { Ok(()) } else { Err(Error::NotOurs { dir: dir.to_owned() }) }
}

/// The process that owns the folder, or owned it last.
pub(super) fn owner_pid(dir: &Path) -> String {
    fs::read_to_string(dir.join(LOCK)).unwrap_or_default().trim().to_owned()
}

/// Takes the lock, or names its holder. The lock goes with the process, however that ends.
fn lock(dir: &Path) -> Result<File, Error> {
    let path = dir.join(LOCK);
    let mut file = private_file().create(true).read(true).write(true).open(&path).at("open", &path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            file.read_to_string(&mut pid).at("read", &path)?;
            return Err(Error::InUse { dir: dir.to_owned(), pid: pid.trim().to_owned() });
        }
        Err(TryLockError::Error(other)) => return Err(other).at("lock", &path),
    }
    file.set_len(0).at("write", &path)?;
    file.rewind().at("write", &path)?;
    writeln!(file, "{}", std::process::id()).at("write", &path)?;
    Ok(file)
}

/// Replaces a file by a private one of the server's user, whole or not at all.
pub(super) fn write_file(account: &Account, path: &Path, text: &str) -> Result<(), Error> {
    let written = path.with_extension("new");
    // Left by a Bugle killed in the middle; never followed if it is a link.
    let _ = fs::remove_file(&written);
    let mut file = private_file().create_new(true).write(true).open(&written).at("write", &written)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).at("write", &written)?;
    account.own(&written)?;
    fs::rename(&written, path).at("write", path)
}

/// Options for a file that nobody else reads, and that is not somebody's link to another place.
pub(super) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    options.mode(0o600).custom_flags(no_follow);
    options
}

/// A new folder with a name that nobody can guess, closed to others from the start.
fn create_private(parent: &Path) -> Result<PathBuf, Error> {
    let dir = parent.join(format!("bugle-pg-{}", random_name::<6>()));
    DirBuilder::new().mode(0o700).create(&dir).at("create", &dir)?;
    Ok(dir)
}

/// `BYTES` random bytes in hexadecimal.
pub(super) fn random_name<const BYTES: usize>() -> String {
    use std::fmt::Write as _;
    let mut name = String::new();
    for _ in 0..BYTES {
        let _ = write!(name, "{:02x}", rand::random::<u8>());
    }
    name
}
