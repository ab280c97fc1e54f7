//! The `bugle` command: jobs on PostgreSQL from the command line.
//!
//! `args` says what may be typed, one file of `commands` runs each of it on the database that `place` opens, and `output` prints the
//! answer: a table for a person, JSON for a program.

mod args;
mod commands;
mod exit;
mod failure;
mod interrupt;
mod output;
mod payloads;
mod place;
mod retry;
mod shell;
mod view;

use args::{Cli, Format};
use bugle::span;
use clap::Parser as _;
use exit::Exit;
use failure::Failure;
use output::Output;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::of_arguments(&error).into(),
    };
    let output = Output::new(cli.global.format());
    start_log(cli.global.verbose, cli.command.owns_the_terminal(output));
    let as_json = cli.global.format() == Some(Format::Json);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::system("start the runtime", &error).report(as_json).into(),
    };
    let exit = match runtime.block_on(commands::run(cli, output)) {
        Ok(exit) => exit,
        Err(failure) => failure.report(as_json),
    };
    // Not waited for: a thread may be blocked on a read of standard input that never ends.
    runtime.shutdown_background();
    exit.into()
}

/// Messages go to standard error, away from the answer; none while a live view draws on the terminal.
fn start_log(verbose: u8, silent: bool) {
    use tracing_subscriber::EnvFilter;
    let default = match (silent, verbose) {
        (true, _) => "off",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, _) => "debug",
    };
    let filter = EnvFilter::try_from_env("BUGLE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(terminal).init();
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
