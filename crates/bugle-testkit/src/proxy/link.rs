//! One client's connection and its counterpart to PostgreSQL.
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::downstream::Downstream;
use super::fault::{Cut, Direction, Kind};
use super::frames::READ_BYTES;
use super::rule::{Rule, View};
use super::startup::Startup;
use super::upstream::Upstream;
use super::writer::Writer;

/// Chunks under way in one direction: bounds what a delay or a stall keeps in memory (about 1 MB).
const UNDER_WAY_MAX: usize = 64;

/// What a reader hands to the writer of its direction. Ends travel in the same line as bytes, so that what came
/// before them is delivered.
pub(super) enum Item {
    Bytes { arrived: Instant, bytes: Vec<u8> },
    EndOfStream,
    End(Ending),
}

/// Why a connection is ended by the proxy, rather than by one of its two parties.
pub(super) enum Ending {
    /// Both sides, as a fault asked for.
    Cut(Cut),
    /// The client alone, because of a statement; PostgreSQL is left to finish.
    Statement(Arc<Rule>),
    /// One of the parties broke off.
    Broken(io::Error),
}

/// The answer that must not reach the client.
pub(super) struct Trap {
    /// Which `ReadyForQuery` ends it: 1 is the one after the startup message.
    pub(super) answer: u64,
    pub(super) rule: Arc<Rule>,
}

/// Set by the reader of requests, sprung by the reader of answers. Once is enough: it ends the connection.
pub(super) type TrapCell = OnceLock<Trap>;

/// Carries bytes both ways until both directions have ended or a fault ends the connection.
pub(super) async fn run(mut client: TcpStream, mut server: TcpStream, startup: Startup, mut view: View) {
    let trap = TrapCell::new();
    let ended = {
        let (client_read, client_write) = client.split();
        let (server_read, server_write) = server.split();
        let (requests, requests_out) = mpsc::channel(UNDER_WAY_MAX);
        let (answers, answers_out) = mpsc::channel(UNDER_WAY_MAX);
        let upstream = Upstream::new(client_read, requests, view.clone(), &trap);
        let downstream = Downstream::new(server_read, answers, view.clone(), &trap);
        let to_server = Writer::new(server_write, requests_out, view.clone(), Direction::ToServer);
        let to_client = Writer::new(client_write, answers_out, view.clone(), Direction::ToClient);
        let carried = async {
            tokio::try_join!(
                async {
                    upstream.run(startup.bytes).await;
                    Ok(())
                },
                async {
                    downstream.run().await;
                    Ok(())
                },
                to_server.run(),
                to_client.run(),
            )
        };
        tokio::select! {
            carried = Box::pin(carried) => carried.err(),
            ending = cut_requested(&mut view) => Some(ending),
        }
    };
    if let Some(ending) = ended {
        end(client, server, ending).await;
    }
}

async fn cut_requested(view: &mut View) -> Ending {
    loop {
        if let Some(rule) = view.strike_once(|kind| matches!(kind, Kind::Cut(_)))
            && let Kind::Cut(how) = rule.kind
        {
            rule.hit();
            return Ending::Cut(how);
        }
        view.changed().await;
    }
}

/// Nothing can be done about a socket that cannot be ended as asked: it is dropped anyway.
async fn end(mut client: TcpStream, mut server: TcpStream, ending: Ending) {
    match ending {
        Ending::Cut(Cut::Close) => {
            let _ = client.shutdown().await;
            let _ = server.shutdown().await;
        }
        Ending::Cut(Cut::Reset) => {
            let _ = client.set_zero_linger();
            let _ = server.set_zero_linger();
        }
        Ending::Broken(error) => {
            tracing::debug!(%error, "a connection through the proxy broke off");
            let _ = client.set_zero_linger();
            let _ = server.set_zero_linger();
        }
        Ending::Statement(rule) => {
            // First the count: whoever sees the error may look at it.
            rule.hit();
            let _ = client.set_zero_linger();
            drop(client);
            // No reset here: PostgreSQL is to read all that was forwarded, and to finish it in peace.
            let _ = server.shutdown().await;
            let _ = tokio::io::copy(&mut server, &mut tokio::io::sink()).await;
        }
    }
}

/// Loses all that arrives, and the news of a close, until `rule` is lifted.
pub(super) async fn swallow(mut source: impl AsyncRead + Unpin, mut view: View, rule: Arc<Rule>) -> Ending {
    rule.hit();
    let mut scratch = vec![0; READ_BYTES];
    let mut open = true;
    loop {
        tokio::select! {
            () = view.lifted(&rule) => return Ending::Cut(Cut::Reset),
            read = source.read(&mut scratch), if open => open = matches!(read, Ok(1..)),
        }
    }
}

/// Connects to PostgreSQL. A server that does not answer at all is not waited for: the client would time out.
pub(super) async fn connect(server: std::net::SocketAddr) -> io::Result<TcpStream> {
    const CONNECT_MAX: Duration = Duration::from_secs(10);
    let stream = tokio::time::timeout(CONNECT_MAX, TcpStream::connect(server)).await??;
    stream.set_nodelay(true)?;
    Ok(stream)
}
