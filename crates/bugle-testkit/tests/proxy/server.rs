//! The PostgreSQL of this test binary: one that lets a client in without a password, because one of the clients here speaks the protocol by hand.
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bugle::pg::embedded::{Options, Server};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};

/// The address of the one server of this process, started by whoever asks first.
pub(crate) fn addr() -> anyhow::Result<SocketAddr> {
    static SERVER: OnceLock<anyhow::Result<Server>> = OnceLock::new();
    // A thread of its own: the test that comes first is inside a runtime, where one must not block.
    let start =
        || std::thread::spawn(start).join().unwrap_or_else(|_| Err(anyhow::anyhow!("starting it panicked")));
    match SERVER.get_or_init(start) {
        Ok(server) => Ok((Ipv4Addr::LOCALHOST, server.port()).into()),
        Err(error) => Err(anyhow::anyhow!("PostgreSQL did not start: {error:#}")),
    }
}

fn start() -> anyhow::Result<Server> {
    let server = Server::start_blocking(Options::ephemeral())?;
    let rules = server.data_dir().join("pg_hba.conf");
    let strict = fs::read_to_string(&rules)?;
    fs::write(&rules, format!("host all all 127.0.0.1/32 trust\n{strict}"))?;
    let postmaster = i32::try_from(server.postmaster_pid())?;
    kill_process(Pid::from_raw(postmaster).context("no process")?, Signal::HUP)?;
    // PostgreSQL reads its rules a moment later.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let by_no_password = options((Ipv4Addr::LOCALHOST, server.port()).into());
    let begun = Instant::now();
    while runtime.block_on(PgConnection::connect_with(&by_no_password)).is_err() {
        anyhow::ensure!(begun.elapsed() < Duration::from_secs(10), "it still wants a password");
    }
    Ok(server)
}

/// Straight to the server at `addr`.
pub(crate) fn options(addr: SocketAddr) -> PgConnectOptions {
    PgConnectOptions::new_without_pgpass()
        .host(&addr.ip().to_string())
        .port(addr.port())
        .username("bugle")
        .database("bugle")
        .application_name("direct")
}
