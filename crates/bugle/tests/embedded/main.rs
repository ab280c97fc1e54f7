//! The embedded server against the real PostgreSQL binaries: life, death, folders and users.

#![allow(clippy::unwrap_used)] // clippy sees no test in a helper

mod crashes;
mod folders;
mod guests;
mod lifecycle;
mod owner;
mod users;

use bugle::pg::embedded::Server;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

/// A temporary folder that everybody may enter, whatever the umask: the server may be another user's.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    home
}

/// Waits for what must happen soon, and fails when it does not.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(30), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

fn kill_9(number: u32) {
    kill_process(pid(number), Signal::KILL).unwrap();
}

/// Whether a process is alive. A zombie is not: who collects it is not ours to decide.
fn alive(number: u32) -> bool {
    let zombie = std::fs::read_to_string(format!("/proc/{number}/stat"))
        .is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')));
    test_kill_process(pid(number)).is_ok() && !zombie
}

async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap()
}

async fn ask(server: &Server, sql: &str) -> String {
    let mut connection = PgConnection::connect_with(&server.connect_options()).await.unwrap();
    let answer = sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    answer
}

async fn run(server: &Server, sql: &str) {
    let mut connection = connect(&server.url()).await;
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}
