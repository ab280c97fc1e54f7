//! Starting the postmaster past the obstacles that pass.

use super::binaries::Binaries;
use super::data_dir::{DataDir, clear_socket_dir};
use super::error::At as _;
use super::lifeline::Lifeline;
use super::postmaster::{self, Attempt};
use super::{Error, Options, config};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Child;
use std::thread::sleep;
use std::time::Duration;

/// Attempts that may find shared memory not yet free.
const ATTEMPTS_MAX: u32 = 50;
/// Attempts that may find their port taken.
const PORTS_MAX: u32 = 10;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(100);

/// A postmaster that is ready, and where.
pub(super) struct Launched {
    pub(super) postmaster: Child,
    pub(super) port: u16,
    pub(super) statistics: bool,
}

/// Writes the settings and starts the postmaster, past the obstacles that pass.
pub(super) fn launch(
    place: &DataDir,
    options: &Options,
    binaries: &Binaries,
    socket_dir: &Path,
    mut statistics: bool,
    lifeline: &mut Lifeline,
) -> Result<Launched, Error> {
    let mut ports_taken = 0;
    let mut attempts = 0;
    loop {
        attempts += 1;
        config::write(&place.data, &place.account, options, statistics)?;
        clear_socket_dir(socket_dir)?;
        let port = options.port.map_or_else(free_port, Ok)?;
        match postmaster::attempt(place, binaries, socket_dir, port, lifeline)? {
            Attempt::Ready(postmaster) => return Ok(Launched { postmaster, port, statistics }),
            Attempt::NoStatistics(_) if statistics => {
                tracing::warn!("Going on without pg_stat_statements, which this PostgreSQL does not have.");
                statistics = false;
                continue;
            }
            Attempt::NoStatistics(error) => return Err(error), // the owner's own choice of libraries
            Attempt::PortTaken => {
                ports_taken += 1;
                if ports_taken >= PORTS_MAX {
                    return Err(Error::PortTaken { port });
                }
            }
            Attempt::StillAttached(error) => {
                if attempts >= ATTEMPTS_MAX {
                    return Err(error);
                }
            }
        }
        sleep(BETWEEN_ATTEMPTS);
    }
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .at("find a free port on", Path::new("127.0.0.1"))
}
