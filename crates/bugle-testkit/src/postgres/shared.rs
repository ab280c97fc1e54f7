//! The server that all tests of a run share.

use anyhow::Context as _;
use bugle::pg::embedded::{Options, Server};
use sqlx::postgres::PgConnectOptions;
use std::str::FromStr as _;
use std::sync::OnceLock;

/// Names the shared server, as a URL of a superuser.
pub const URL_VARIABLE: &str = "BUGLE_TEST_DATABASE_URL";

/// Never dropped, as statics are not: its lifeline removes it when the process ends. No test's
/// runtime owns it either, so the first test to end does not take it away from the others.
static OWN: OnceLock<Result<Server, String>> = OnceLock::new();

/// The URL of the shared server's database.
pub(super) async fn url() -> anyhow::Result<String> {
    if let Ok(url) = std::env::var(URL_VARIABLE) {
        return Ok(url);
    }
    // The first caller starts it, the others wait, on threads where waiting is allowed.
    tokio::task::spawn_blocking(|| {
        let started =
            OWN.get_or_init(|| Server::start_blocking(options()).map_err(|error| error.to_string()));
        started.as_ref().map(Server::url).map_err(|error| anyhow::anyhow!("{error}"))
    })
    .await?
}

/// How a server for many tests is set up. Each test has a schema of its own and so statements of its own: many more than PostgreSQL keeps
/// the statistics of by default, and those it forgets are missing from a test's count.
#[must_use]
pub fn options() -> Options {
    // What a migration defines is never counted, and its texts would have to be read by every count.
    Options::ephemeral()
        .setting("pg_stat_statements.max", "100000")
        .setting("pg_stat_statements.track_utility", "off")
}

/// The way into `database` on the server of `url`.
pub(super) fn connect_options(url: &str) -> anyhow::Result<PgConnectOptions> {
    PgConnectOptions::from_str(url).with_context(|| format!("{URL_VARIABLE} is not a PostgreSQL URL"))
}
