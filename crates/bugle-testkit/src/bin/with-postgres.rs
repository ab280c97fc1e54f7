//! `with-postgres -- COMMAND...`: runs a command with a PostgreSQL server of its own.
//!
//! One server for a whole `cargo test` instead of one for each test program. It is named in the
//! command's environment as `BUGLE_TEST_DATABASE_URL` and is gone when the command ends.

use anyhow::Context as _;
use bugle::pg::embedded::Server;
use bugle_testkit::postgres::{URL_VARIABLE, options};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitCode};
use std::time::Instant;

fn main() -> anyhow::Result<ExitCode> {
    let mut words = std::env::args_os().skip(1).skip_while(|word| word == "--");
    let program = words.next().context("Usage: with-postgres -- COMMAND [ARGUMENTS]")?;

    let begun = Instant::now();
    let server = Server::start_blocking(options())?;
    let (major, port) = (server.major_version(), server.port());
    eprintln!(
        "with-postgres: PostgreSQL {major} on port {port} after {:.1} s",
        begun.elapsed().as_secs_f32()
    );

    let begun = Instant::now();
    let mut command = Command::new(&program);
    command.args(words).env(URL_VARIABLE, server.url());
    forget_cargo_run(&mut command);
    let status = command.status().with_context(|| format!("cannot run {}", program.display()))?;
    eprintln!("with-postgres: the command took {:.1} s", begun.elapsed().as_secs_f32());
    server.stop_blocking()?;

    // As a shell says it: 128 and the signal for a command that was killed.
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Hides that `cargo run` started us. A `cargo test` that inherits these variables takes the build
/// scripts that watch them for stale, and compiles half the dependencies anew, each time.
fn forget_cargo_run(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"].iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
}
