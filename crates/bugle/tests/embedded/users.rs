//! Root and ordinary users.

use super::{ask, home, kill_9};
use bugle::pg::embedded::{Error, Options, Server};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

const NOBODY: u32 = 65534;

/// What must work for an ordinary user as for root: one of each kind.
const FOR_EVERYBODY: [&str; 6] = [
    "lifecycle::data_survives_a_stop_and_a_start",
    "lifecycle::the_settings_are_durable_and_those_given_win",
    "crashes::an_orphaned_server_is_replaced",
    "crashes::an_ephemeral_folder_goes_with_its_killed_owner",
    "folders::a_folder_in_use_is_refused_with_the_owners_pid",
    "users::the_server_runs_as_an_ordinary_user",
];

fn root() -> bool {
    rustix::process::geteuid().is_root()
}

fn owner_of(process: u32) -> u32 {
    std::fs::metadata(format!("/proc/{process}")).unwrap().uid()
}

#[tokio::test]
async fn the_server_runs_as_an_ordinary_user() {
    let server = Server::start(Options::ephemeral()).await.unwrap();
    let me = rustix::process::geteuid().as_raw();
    let runs_as = owner_of(server.postmaster_pid());
    assert_ne!(runs_as, 0);
    assert_eq!(runs_as == me, !root(), "as Bugle's own user, unless that is root");
    assert_eq!(std::fs::metadata(server.data_dir()).unwrap().uid(), runs_as);
    assert_eq!(ask(&server, "SELECT 'here'").await, "here");
    server.stop().await.unwrap();
}

/// The tests above once more, as the user that this run is not: nobody for root. An ordinary user
/// cannot become root, and has then run them all as themselves.
#[test]
fn what_works_for_root_works_for_an_ordinary_user() {
    if !root() {
        assert_ne!(rustix::process::geteuid().as_raw(), 0);
        return;
    }
    // Copied, and with a temporary folder of its own: the build and TMPDIR may be closed to others.
    let home = tempfile::Builder::new().prefix("bugle").tempdir_in("/tmp").unwrap();
    let tests = home.path().join("tests");
    std::fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
    std::fs::set_permissions(&tests, Permissions::from_mode(0o755)).unwrap();
    chown(home.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let run = Command::new(&tests)
        .arg("--exact")
        .args(FOR_EVERYBODY)
        .env("HOME", home.path())
        .env("TMPDIR", home.path())
        .env_remove("XDG_DATA_HOME")
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}\n{}", String::from_utf8_lossy(&run.stderr));
    assert!(said.contains(&format!("{} passed", FOR_EVERYBODY.len())), "{said}");
}

#[tokio::test]
async fn a_folder_that_the_servers_user_cannot_reach_is_told() {
    if !root() {
        let refused = Server::start(Options::at("/proc/bugle")).await.unwrap_err().to_string();
        assert!(refused.contains("/proc/bugle"), "{refused}");
        return;
    }
    let closed = home();
    std::fs::set_permissions(closed.path(), Permissions::from_mode(0o700)).unwrap();
    let dir = closed.path().join("postgres");
    let refused = Server::start(Options::at(&dir)).await.unwrap_err();
    assert!(matches!(refused, Error::Unreachable { .. }), "{refused}");
    assert!(refused.to_string().contains(&dir.display().to_string()), "{refused}");
}

#[tokio::test]
async fn a_users_folder_stays_theirs_when_root_starts_the_server() {
    let home = home();
    let dir = home.path().join("postgres");
    std::fs::create_dir(&dir).unwrap();
    let owner = if root() { NOBODY } else { rustix::process::geteuid().as_raw() };
    chown(&dir, Some(owner), None).unwrap();
    let server = Server::start(Options::at(&dir)).await.unwrap();
    assert_eq!(owner_of(server.postmaster_pid()), owner);
    kill_9(server.postmaster_pid());
    drop(server);
    for name in ["", "bugle.lock", "password", "server.log", "socket", "data", "data/bugle.conf"] {
        assert_eq!(std::fs::metadata(dir.join(name)).unwrap().uid(), owner, "{name}");
    }
}

#[test]
fn roots_default_folder_is_not_in_its_home() {
    let dir = Options::default_dir().unwrap();
    if root() {
        assert_eq!(dir, std::path::Path::new("/var/lib/bugle/postgres"));
    } else {
        assert!(dir.ends_with("bugle/postgres"), "{}", dir.display());
    }
}
