//! Everything that can be said about a provider.

use crate::config::LongPollConfig;
use bugle::Error;
use bugle::name::SchemaName;
use bugle::pg::{connect, migrate};
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use std::ffi::OsStr;

/// Names the most connections of a pool that the provider makes itself.
pub const POOL_MAX_VARIABLE: &str = "DUROXIDE_PG_POOL_MAX";
/// The schema of providers that are not told another one. Not `public`, where an application may have a table `message` of its own.
pub const DEFAULT_SCHEMA: &str = "duroxide";

/// How a provider works; every field has a default.
#[derive(Debug, Clone)]
pub struct Options {
    /// The schema of its tables, which no other part of Bugle may share. Default: [`DEFAULT_SCHEMA`].
    pub schema: SchemaName,
    /// How fetches wait. Default: not at all.
    pub long_poll: LongPollConfig,
    /// Where the listener connects: straight to the server, if the pool goes through a pooler in transaction mode. Default: as the pool does.
    pub listener_url: Option<String>,
    /// Bring the tables up to date, or only check that they are. Default: bring.
    pub migrate: migrate::Policy,
    /// The most connections of a pool that the provider makes itself. Default: what [`POOL_MAX_VARIABLE`] says, else 10.
    pub pool_connections_max: Option<u32>,
    /// Text of histories kept in memory. Default: 32 MiB.
    pub history_cache_bytes_max: usize,
    /// Work even on a server that may lose what it has acknowledged. Default: no.
    pub allow_unsafe_database: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            schema: SchemaName::parse(DEFAULT_SCHEMA).unwrap_or_default(), // it can be parsed: there is a test
            long_poll: LongPollConfig::default(),
            listener_url: None,
            migrate: migrate::Policy::default(),
            pool_connections_max: None,
            history_cache_bytes_max: 32 << 20,
            allow_unsafe_database: false,
        }
    }
}

impl Options {
    pub(crate) fn connections_max(&self) -> Result<u32, Error> {
        if let Some(most) = self.pool_connections_max {
            return Ok(most);
        }
        pool_max(std::env::var_os(POOL_MAX_VARIABLE).as_deref())
    }

    pub(crate) fn listener(&self, pool: &PgPool) -> Result<PgConnectOptions, Error> {
        match &self.listener_url {
            Some(url) => Ok(connect::Options::parse(url)?.connect),
            None => Ok((*pool.connect_options()).clone()),
        }
    }
}

/// What the variable says.
fn pool_max(text: Option<&OsStr>) -> Result<u32, Error> {
    let Some(text) = text else { return Ok(10) };
    let most = text.to_str().and_then(|text| text.parse().ok()).filter(|most| *most > 0);
    most.ok_or_else(|| Error::Invalid {
        what: POOL_MAX_VARIABLE,
        fault: format!("is {}", text.display()),
        next: "use a number from 1, or leave it out for 10",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_schema_is_what_it_is_called() {
        assert_eq!(Options::default().schema.as_str(), DEFAULT_SCHEMA);
    }

    #[test]
    fn the_size_of_the_pool_is_a_number_from_1() {
        assert_eq!(pool_max(None).unwrap(), 10);
        assert_eq!(pool_max(Some(OsStr::new("25"))).unwrap(), 25);
        for bad in ["", "0", "-1", "many"] {
            let error = pool_max(Some(OsStr::new(bad))).unwrap_err().to_string();
            assert!(error.contains(POOL_MAX_VARIABLE), "{error}");
        }
    }
}
