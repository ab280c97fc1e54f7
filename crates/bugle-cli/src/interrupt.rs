//! Being told to stop.

use crate::exit::Exit;
use tokio::signal::unix::{Signal, SignalKind, signal};

const SIGINT: u8 = 2;
const SIGTERM: u8 = 15;

/// Ctrl-C and the polite kill, from now on ours to answer.
pub(crate) struct Interrupts {
    int: Signal,
    term: Signal,
}

impl Interrupts {
    pub(crate) fn catch() -> std::io::Result<Self> {
        Ok(Self { int: signal(SignalKind::interrupt())?, term: signal(SignalKind::terminate())? })
    }

    /// The number of the next signal to stop.
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.int.recv() => SIGINT,
            _ = self.term.recv() => SIGTERM,
        }
    }
}

/// Waits for one signal, which asks for an orderly end; a second one ends the process where it stands.
///
/// Nothing is lost by that: leases end by themselves, and an embedded server is stopped by its lifeline.
pub(crate) async fn first_then_die() -> std::io::Result<u8> {
    let mut interrupts = Interrupts::catch()?;
    let first = interrupts.next().await;
    tokio::spawn(async move {
        let second = interrupts.next().await;
        #[allow(clippy::exit)] // the one place that means it
        std::process::exit(i32::from(Exit::Signal(second).code()));
    });
    Ok(first)
}
