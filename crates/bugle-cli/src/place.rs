//! Where the data is: the database that was named, or a private one.

use crate::args::Global;
use crate::commands::config;
use crate::failure::Failure;
use bugle::pg::connect;
use bugle::pg::embedded::{self, Embedded, Server, Stay};
use bugle::pg::migrate::Policy;
use bugle::{Bugle, Error, Options};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection, PgPool};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Others that use a private server which is about to stop get this long to finish.
const GUESTS_PATIENCE: Duration = Duration::from_secs(10);

/// Connections get this long to end.
const POOL_PATIENCE: Duration = Duration::from_secs(2);

/// A server that is stopping takes at most about this long.
const OWNER_END_PATIENCE: Duration = Duration::from_secs(3);

/// How often a guest looks whether the server is still there, and who only waits whether he is in somebody's way.
const OWNER_LOOK_EVERY: Duration = Duration::from_millis(250);

/// A database that can be reached.
pub(crate) struct Place {
    global: Global,
    connect: PgConnectOptions,
    url: String,
    embedded: Option<Embedded>,
    /// Closed before the server stops, which would otherwise cut them off.
    pools: Mutex<Vec<PgPool>>,
    /// Their engines are stopped before that.
    bugles: Mutex<Vec<Bugle>>,
}

impl Place {
    /// Finds the database, and starts a private one when none was named.
    pub(crate) async fn open(global: &Global, stay: Stay) -> Result<Self, Failure> {
        if let Some(url) = database_url(global) {
            let connect = connect::Options::parse(&url)?.connect;
            return Ok(Self::new(global, connect, url, None));
        }
        let options = if global.ephemeral {
            embedded::Options::ephemeral()
        } else {
            embedded::Options::at(match &global.data_dir {
                Some(dir) => dir.clone(),
                None => embedded::Options::default_dir()?,
            })
        };
        let embedded = Server::start_or_join(options, stay).await?;
        let (connect, url) = match &embedded {
            Embedded::Owned(server) => (server.connect_options(), server.url()),
            Embedded::Guest(guest) => {
                tracing::info!(owner = guest.owner_pid(), "joining the PostgreSQL of a running Bugle");
                (guest.connect_options(), guest.url())
            }
        };
        Ok(Self::new(global, connect, url, Some(embedded)))
    }

    fn new(global: &Global, connect: PgConnectOptions, url: String, embedded: Option<Embedded>) -> Self {
        Self {
            global: global.clone(),
            connect,
            url,
            embedded,
            pools: Mutex::default(),
            bugles: Mutex::default(),
        }
    }

    /// The address, for another process. It holds the password: never on a command line.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What kind of database it is, in a few words.
    pub(crate) fn describe(&self) -> String {
        match &self.embedded {
            None => "your PostgreSQL".to_owned(),
            Some(Embedded::Owned(server)) => {
                format!("private PostgreSQL {} on port {}", server.major_version(), server.port())
            }
            Some(Embedded::Guest(guest)) => {
                format!("the PostgreSQL of the Bugle with pid {}", guest.owner_pid())
            }
        }
    }

    /// How to look at the same database meanwhile, for a person; empty when it cannot be found by anybody else.
    pub(crate) fn how_to_join(&self) -> String {
        match (&self.global.ephemeral, &self.global.data_dir) {
            (true, _) => String::new(),
            (false, Some(dir)) => {
                format!("look in another terminal: {} job ls --data-dir {}", typed_name(), dir.display())
            }
            (false, None) => format!("look in another terminal: {} job ls", typed_name()),
        }
    }

    /// Bugle on it, with the schema brought up to date or checked.
    pub(crate) async fn bugle(&self, connections_max: u32) -> Result<Bugle, Failure> {
        let pool = self.pool(connections_max, self.global.allow_unsafe_database).await?;
        let options = Options {
            schema: self.global.schema.clone(),
            namespace: self.global.namespace.clone(),
            migrate: if self.global.no_migrate { Policy::Verify } else { Policy::Apply },
            wake: config::wake_options(&self.global)?,
            listener: listener_url(&self.global)
                .map(|url| connect::Options::parse(&url))
                .transpose()?
                .map(|o| o.connect),
        };
        let bugle = Bugle::new(pool, options).await?;
        self.bugles.lock().unwrap_or_else(PoisonError::into_inner).push(bugle.clone());
        Ok(bugle)
    }

    /// A pool alone, for commands that look at a schema which may not be there.
    pub(crate) async fn pool(&self, connections_max: u32, allow_unsafe: bool) -> Result<PgPool, Failure> {
        self.probe().await?;
        let options = connect::Options {
            connections_max,
            allow_unsafe,
            ..connect::Options::from(self.connect.clone())
        };
        Ok(self.remember(connect::pool(&options).await?))
    }

    /// A pool on any server that answers, fit for the work or not: for the one command whose answer that is.
    pub(crate) async fn unchecked_pool(&self) -> Result<PgPool, Failure> {
        self.probe().await?;
        let connect = self.connect.clone().application_name("bugle doctor");
        Ok(self.remember(PgPoolOptions::new().max_connections(1).connect_with(connect).await?))
    }

    fn remember(&self, pool: PgPool) -> PgPool {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).push(pool.clone());
        pool
    }

    /// A pool goes on trying while nobody listens, and then only says that time is up. A person at a terminal is told at once.
    async fn probe(&self) -> Result<(), Failure> {
        match PgConnection::connect_with(&self.connect).await {
            Ok(connection) => drop(connection.close().await),
            Err(sqlx::Error::Database(_)) => {} // the pool says it better
            Err(error) => return Err(Error::NoConnection(error).into()),
        }
        Ok(())
    }

    /// Returns when a private server that another command owns has ended, with what to tell; never for any other database, which may
    /// come back.
    pub(crate) async fn is_gone(&self) -> Failure {
        let Some(Embedded::Guest(guest)) = &self.embedded else { return std::future::pending().await };
        while !guest.is_gone() {
            tokio::time::sleep(OWNER_LOOK_EVERY).await;
        }
        Failure::server(format!(
            "the private PostgreSQL has ended with the bugle command that ran it (process {}); start this one again",
            guest.owner_pid()
        ))
    }

    /// The reason behind a failure: a guest whose server ends sees its connections break before it can know why.
    pub(crate) async fn reason(&self, failure: Failure) -> Failure {
        if !matches!(self.embedded, Some(Embedded::Guest(_))) {
            return failure;
        }
        tokio::time::timeout(OWNER_END_PATIENCE, self.is_gone()).await.unwrap_or(failure)
    }

    /// Returns when whoever only waits shall close the place and open it again: a command that stays wants to run the private server, or
    /// the one that ran it has ended. Never for any other database.
    pub(crate) async fn is_to_be_left(&self) -> Result<(), Failure> {
        let Some(embedded) = &self.embedded else { return std::future::pending().await };
        while !embedded.is_to_be_left()? {
            tokio::time::sleep(OWNER_LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Is that the reason behind a failure? As in [`Place::reason`], a guest cannot know at once.
    pub(crate) async fn is_left_with(&self, failure: &Failure) -> bool {
        if !failure.is_of_the_server() || !matches!(self.embedded, Some(Embedded::Guest(_))) {
            return false;
        }
        let left = tokio::time::timeout(OWNER_END_PATIENCE, self.is_to_be_left()).await;
        left.is_ok_and(|left| left.is_ok())
    }

    /// Ends the connections, and the private server if this process started it.
    pub(crate) async fn close(self, wait_for_guests: bool) -> Result<(), Failure> {
        for bugle in self.bugles.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let _ = tokio::time::timeout(POOL_PATIENCE, bugle.close()).await;
        }
        for pool in self.pools.into_inner().unwrap_or_else(PoisonError::into_inner) {
            // A statement that was cut short may keep its connection busy: not for long.
            let _ = tokio::time::timeout(POOL_PATIENCE, pool.close()).await;
        }
        let Some(Embedded::Owned(mut server)) = self.embedded else { return Ok(()) };
        let patience = if wait_for_guests { GUESTS_PATIENCE } else { Duration::ZERO };
        if !server.wait_for_guests(patience).await? {
            tracing::warn!("stopping the private PostgreSQL although another bugle command uses it");
        }
        Ok(server.stop().await?)
    }
}

/// This program as it was typed: it need not be on the PATH.
fn typed_name() -> String {
    std::env::args().next().unwrap_or_else(|| "bugle".to_owned())
}

fn listener_url(global: &Global) -> Option<String> {
    global
        .listener_url
        .clone()
        .or_else(|| std::env::var("BUGLE_LISTENER_URL").ok())
        .filter(|url| !url.is_empty())
}

/// What was typed goes before what the environment says; a folder that was typed as well.
fn database_url(global: &Global) -> Option<String> {
    if global.database_url.is_some() {
        return global.database_url.clone();
    }
    if global.ephemeral || global.data_dir.is_some() {
        return None;
    }
    ["BUGLE_DATABASE_URL", "DATABASE_URL"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|url| !url.is_empty())
}
