//! A TCP proxy that hurts the PostgreSQL protocol on purpose.
//!
//! It listens on a free loopback port in front of a server, reads the messages both ways, and does what it is
//! told: [`Fault`]s can be set and lifted while clients work, for all connections or some; a [`Gate`] holds a
//! statement until the test lets it go, so that interleavings are forced and not hoped for.
//!
//! The way of a byte, in file names: `startup` → `upstream` (with `frames` and `frontend`) → `writer` → PostgreSQL,
//! and back through `downstream` → `writer`. `link` holds the two together, `rule` says which fault strikes.
//!
//! ```no_run
//! use bugle_testkit::proxy::{Clients, Fault, Proxy};
//! use sqlx::{Connection, PgConnection, postgres::PgConnectOptions};
//!
//! # async fn example() -> anyhow::Result<()> {
//! let direct = PgConnectOptions::new().host("127.0.0.1").port(5432).application_name("worker");
//! let proxy = Proxy::start("127.0.0.1:5432".parse()?).await?;
//! let mut worker = PgConnection::connect_with(&proxy.rewrite(&direct)).await?;
//!
//! // The insert commits, the worker sees an error.
//! let cut = proxy.set(Fault::cut_after_answer("enqueue").on(Clients::application("worker")).next(1));
//! let outcome = sqlx::query("/* enqueue */ INSERT INTO job DEFAULT VALUES").execute(&mut worker).await;
//! assert!(outcome.is_err());
//! assert_eq!(cut.hits(), 1, "a fault that hit nothing proves nothing");
//! proxy.heal();
//!
//! // Another session does something between the claim's departure and its arrival.
//! let gate = proxy.gate("claim");
//! let mut worker = PgConnection::connect_with(&proxy.rewrite(&direct)).await?;
//! let claim = tokio::spawn(async move { sqlx::query("SELECT claim()").execute(&mut worker).await });
//! gate.arrived().await;
//! // ...
//! gate.open();
//! claim.await??;
//! # Ok(())
//! # }
//! ```
//!
//! Known limits: no TLS (it is refused, and [`Proxy::rewrite`] asks for none), and `COPY FROM STDIN` through the
//! extended protocol is counted as two requests, so a later [`Fault::cut_after_answer`] on that connection waits
//! for one answer too many (the simple protocol, which `sqlx` uses for COPY, is fine).
mod downstream;
mod fault;
mod frames;
mod frontend;
mod gate;
mod link;
mod rule;
mod startup;
mod statement;
mod upstream;
mod writer;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

pub use self::fault::{Clients, Cut, Direction, Fault};
pub use self::gate::Gate;
pub use self::rule::ActiveFault;
pub use self::statement::Statement;

use self::fault::Kind;
use self::gate::Hold;
use self::rule::{Rule, Rules, View};

/// A running proxy; dropping it ends all of its connections.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    rules: watch::Sender<Rules>,
    /// All faults that were ever set, for the report.
    history: Mutex<Rules>,
    opened: Arc<AtomicUsize>,
    service: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free loopback port, in front of the server at `server`.
    ///
    /// The server is asked for only when a client comes: it may start later, and go away meanwhile.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let rules = watch::Sender::new(Rules::new());
        let opened = Arc::new(AtomicUsize::new(0));
        let service = tokio::spawn(accept(listener, server, rules.clone(), opened.clone()));
        Ok(Self { addr, rules, history: Mutex::default(), opened, service })
    }

    /// Where the proxy listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The same options, but through the proxy and without TLS.
    ///
    /// # Panics
    /// If the options name a Unix socket with `socket`: the driver offers no way to take that back.
    #[must_use]
    pub fn rewrite(&self, options: &PgConnectOptions) -> PgConnectOptions {
        assert!(options.get_socket().is_none(), "options that name a Unix socket bypass the proxy");
        let options = options.clone().ssl_mode(PgSslMode::Disable);
        options.host(&self.addr.ip().to_string()).port(self.addr.port())
    }

    /// Sets a fault, beside those already set. Of several of one kind, the one set first strikes first.
    pub fn set(&self, fault: Fault) -> ActiveFault {
        let rule = Rule::new(fault);
        self.history.lock().unwrap_or_else(PoisonError::into_inner).push(rule.clone());
        self.rules.send_modify(|rules| rules.push(rule.clone()));
        ActiveFault { rule, rules: self.rules.clone() }
    }

    /// Lifts all faults. Gates stay: they belong to the test that holds them.
    pub fn heal(&self) {
        self.rules.send_modify(|rules| rules.retain(|rule| matches!(rule.kind, Kind::Gate(..))));
    }

    /// Holds matching statements of all connections until the test lets them go.
    pub fn gate(&self, statement: impl Into<Statement>) -> Gate {
        self.gate_on(Clients::All, statement)
    }

    /// Holds matching statements of some connections until the test lets them go.
    pub fn gate_on(&self, clients: Clients, statement: impl Into<Statement>) -> Gate {
        let hold = Hold::new();
        let fault = self.set(Fault::new(Kind::Gate(statement.into(), hold.clone())).on(clients));
        Gate { hold, fault }
    }

    /// Each fault that was ever set and how often it hit, in the order of setting: for a run's log.
    #[must_use]
    pub fn report(&self) -> Vec<(String, u64)> {
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.iter().map(|rule| (format!("{:?}", rule.kind), *rule.hits().borrow())).collect()
    }

    /// How many connections were accepted so far; the next one has this number.
    #[must_use]
    pub fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    /// The connections accepted so far: they suffer, later ones are spared.
    #[must_use]
    pub fn so_far(&self) -> Clients {
        Clients::Before(self.opened())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.service.abort();
    }
}

async fn accept(
    listener: TcpListener,
    server: SocketAddr,
    rules: watch::Sender<Rules>,
    opened: Arc<AtomicUsize>,
) {
    // Ends its tasks when it is dropped, that is: with the proxy.
    let mut links = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    let index = opened.fetch_add(1, Ordering::SeqCst);
                    links.spawn(serve(client, server, index, rules.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "the proxy could not accept a connection");
                    // Most likely out of descriptors: spinning would not free one.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            },
            Some(_) = links.join_next() => {}
        }
    }
}

async fn serve(mut client: TcpStream, server: SocketAddr, index: usize, rules: watch::Sender<Rules>) {
    let started = async {
        client.set_nodelay(true)?;
        let Some(startup) = startup::read(&mut client).await? else { return Ok(None) };
        let server = link::connect(server).await?;
        io::Result::Ok(Some((startup, server)))
    };
    match started.await {
        Ok(None) => {}
        Ok(Some((startup, server))) => {
            let view = View::new(index, &startup.application, rules.subscribe());
            link::run(client, server, startup, view).await;
        }
        Err(error) => {
            tracing::debug!(%error, index, "a connection through the proxy did not start");
            // As near as can be to the refusal that the client would have met.
            let _ = client.set_zero_linger();
        }
    }
}
