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
        let started = OWN
            .get_or_init(|| Server::start_blocking(Options::ephemeral()).map_err(|error| error.to_string()));
        started.as_ref().map(Server::url).map_err(|error| anyhow::anyhow!("{error}"))
    })
    .await?
}

/// The way into `database` on the server of `url`.
pub(super) fn connect_options(url: &str) -> anyhow::Result<PgConnectOptions> {
    PgConnectOptions::from_str(url).with_context(|| format!("{URL_VARIABLE} is not a PostgreSQL URL"))
}
