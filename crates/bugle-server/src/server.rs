//! The server: a socket, and the routes behind it.

use crate::access::{Access, Jwt};
use crate::app::App;
use crate::engine;
use crate::limits::{HEAD_BYTES_MAX, STOP_WITHIN, STREAMS_MAX};
use crate::patience::{Attend, Patience};
use crate::routes;
use crate::tls::Tls;
use axum_server::Handle;
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use bugle::Bugle;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long the proof of who the server is may take, unless the head of a request may take less.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// How often a silent HTTP/2 connection is asked whether it still lives.
const PING_EVERY: Duration = Duration::from_secs(30);

/// How a server is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens; port 0: any that is free.
    pub listen: SocketAddr,
    /// How tokens are checked; `None`: callers are known by API keys alone.
    pub jwt: Option<Jwt>,
    /// With what it proves who it is; `None`: it speaks in the clear.
    pub tls: Option<Tls>,
    /// How long it waits for clients that are slow.
    pub patience: Patience,
}

impl Options {
    /// In the clear and without tokens.
    #[must_use]
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen, jwt: None, tls: None, patience: Patience::default() }
    }
}

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be had.
    #[error("cannot listen on {listen}: {error}; choose another address with --listen")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("{what} {path:?} cannot be used: {error}; use PEM files")]
    Tls {
        /// Which of them.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: io::Error,
    },
    /// The database could not be asked whether there are keys.
    #[error(transparent)]
    Database(#[from] bugle::Error),
    /// Everybody in the network could do everything.
    #[error(
        "{listen} can be reached from other machines, and without keys everybody there may do everything; make a key with `bugle key create`, or listen on 127.0.0.1"
    )]
    OpenToOthers {
        /// The address.
        listen: SocketAddr,
    },
}

/// The broker behind a socket.
pub struct Server {
    app: App,
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<RustlsConfig>,
}

impl Server {
    /// Listens. Requests are answered as soon as [`Server::run`] runs.
    pub async fn bind(bugle: Bugle, options: Options) -> Result<Self, StartError> {
        let listen = options.listen;
        let access = Access::new(&bugle, options.jwt).await?;
        if access.is_open() && !listen.ip().is_loopback() {
            return Err(StartError::OpenToOthers { listen });
        }
        let bound = || {
            let listener = TcpListener::bind(listen)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = bound().map_err(|error| StartError::Listen { listen, error })?;
        let tls = match options.tls {
            Some(tls) => Some(tls.load().await?),
            None => None,
        };
        Ok(Self { app: App::new(bugle, access, options.patience), listener, address, tls })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The beginning of its addresses: `http` or `https`.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// May everybody who reaches it do everything?
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.app.access().is_open()
    }

    /// Serves until `stop`. Then nobody new is let in, waiting pops are answered at once with nothing, what was claimed for them is handed back,
    /// and requests that run get some seconds to end. The caller closes the [`Bugle`] afterwards.
    pub async fn run(self, stop: CancellationToken) -> io::Result<()> {
        let handle = Handle::new();
        let stopping = tokio::spawn({
            let (handle, app) = (handle.clone(), self.app.clone());
            async move {
                stop.cancelled().await;
                app.stopping().cancel();
                handle.graceful_shutdown(Some(STOP_WITHIN));
            }
        });
        let following = tokio::spawn(follow_control(self.app.clone()));
        let engine = tokio::spawn(engine::run(self.app.clone()));
        let (patience, stops) = (self.app.patience(), self.app.stopping().clone());
        let service = routes::router(self.app).into_make_service();
        let mut server =
            axum_server::from_tcp(self.listener)?.acceptor(NoDelayAcceptor::new()).handle(handle);
        configure(server.http_builder(), patience);
        let result = match self.tls {
            None => server.map(|plain| Attend::new(plain, patience)).serve(service).await,
            Some(tls) => {
                let within = patience.head.min(HANDSHAKE_WITHIN);
                let secure = RustlsAcceptor::new(tls).handshake_timeout(within);
                let secure = |plain| Attend::new(secure.acceptor(plain), patience);
                server.map(secure).serve(service).await
            }
        };
        // They have done their work, or there is none.
        stopping.abort();
        following.abort();
        if stops.is_cancelled() {
            let _ = tokio::time::timeout(STOP_WITHIN, engine).await; // it ends what it has begun
        } else {
            engine.abort();
        }
        result
    }
}

/// Reads what concerns a server whenever control has changed. What cannot be read is read at the next change, of which a lost connection is one.
async fn follow_control(app: App) {
    let mut changes = app.bugle().control_changes();
    loop {
        changes.borrow_and_update(); // before anything is read: what changes meanwhile is seen
        let read = async {
            app.access().close_if_there_are_keys().await?;
            app.refused().read(app.bugle()).await
        };
        if let Err(error) = read.await {
            tracing::warn!(%error, "Whether there are keys and maintenance could not be read.");
        }
        match app.stopping().run_until_cancelled(changes.changed()).await {
            Some(Ok(())) => {}
            _ => return,
        }
    }
}

fn configure(http: &mut Builder<TokioExecutor>, patience: Patience) {
    http.http1().timer(TokioTimer::new()).header_read_timeout(patience.head).max_buf_size(HEAD_BYTES_MAX);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .keep_alive_interval(PING_EVERY)
        .adaptive_window(true);
}
