//! `bugle serve`: the broker over HTTP.

use crate::args::Global;
use crate::commands::until_stopped::until_stopped;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;
use crate::span;
use bugle_server::{Jwt, JwtError, Options, Patience, Server, StartError, Tls, seed_variables};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Serve the broker over HTTP: push, pop, ack from any language
///
/// The wire format is that of Queen MQ 0.15; its clients work unchanged. Any number of servers may share
/// one database: a push on one wakes a pop that waits on another.
///
/// Callers show an API key (bugle key create) or a token as Authorization: Bearer. Without keys and tokens
/// everybody who reaches the server may do everything, so only loopback addresses are accepted to listen
/// on. The first Ctrl-C or SIGTERM stops in order: waiting pops are answered, what
/// was claimed for them is handed back, running requests get 10 seconds. A second one ends at once.
#[allow(clippy::doc_markdown)] // this is a help text
#[derive(Debug, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  bugle serve                                              a private PostgreSQL, http://127.0.0.1:6632
  bugle serve --database-url postgres://localhost/app
  bugle serve --listen 127.0.0.1:0 --ephemeral             any free port; nothing stays on the disk
  bugle serve --listen 0.0.0.0:6632 --tls-cert cert.pem --tls-key key.pem    for other machines; needs a key"
)]
pub(crate) struct Args {
    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS", env = "BUGLE_LISTEN", default_value = "127.0.0.1:6632")]
    listen: SocketAddr,
    /// Connections to the database, beside those of the wake engine
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=1_000))]
    connections: u32,
    /// How long the head of a request may take, and a connection idle between two
    #[arg(long, value_name = "TIME", default_value = "75s", value_parser = some_time)]
    head_within: Duration,
    /// How long the body of a request may take; its client is answered 408
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = some_time)]
    body_within: Duration,
    /// How long a client may not read what it is answered
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = some_time)]
    answer_within: Duration,
    /// The certificate to prove who the server is, a PEM file; with --tls-key
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Accept tokens (JWT, RS256) that were signed with the private key of this public one, a PEM file
    #[arg(long, value_name = "FILE", env = "BUGLE_JWT_PUBLIC_KEY", conflicts_with = "jwt_secret_file")]
    jwt_public_key: Option<PathBuf>,
    /// Accept tokens (JWT, HS256) that were signed with the secret in this file, at least 32 bytes
    #[arg(long, value_name = "FILE", env = "BUGLE_JWT_SECRET_FILE")]
    jwt_secret_file: Option<PathBuf>,
    /// Accept tokens of this issuer only
    #[arg(long, value_name = "NAME", env = "BUGLE_JWT_ISSUER")]
    jwt_issuer: Option<String>,
    /// Accept tokens for this audience only
    #[arg(long, value_name = "NAME", env = "BUGLE_JWT_AUDIENCE")]
    jwt_audience: Option<String>,
}

/// Without any time nobody could say anything.
fn some_time(text: &str) -> Result<Duration, String> {
    let time = span::parse(text)?;
    if time.is_zero() {
        return Err(format!("{text:?} is no time; write how long clients are waited for, such as 30s"));
    }
    Ok(time)
}

impl Args {
    fn patience(&self) -> Patience {
        let (head, body, answer) = (self.head_within, self.body_within, self.answer_within);
        Patience { head, body, answer, ..Patience::default() }
    }

    fn tls(&self) -> Option<Tls> {
        let (certificate, key) = self.tls_cert.clone().zip(self.tls_key.clone())?;
        Some(Tls { certificate, key })
    }

    fn jwt(&self) -> Result<Option<Jwt>, Failure> {
        let read = |path: &PathBuf| {
            let text = std::fs::read(path);
            text.map_err(|error| Failure::user(format!("{} cannot be read: {error}", path.display())))
        };
        let refused = |error: JwtError| Failure::user(error.to_string());
        let mut jwt = match (&self.jwt_public_key, &self.jwt_secret_file) {
            (Some(path), _) => Jwt::rs256(&read(path)?).map_err(refused)?,
            (None, Some(path)) => Jwt::hs256(read(path)?.trim_ascii_end()).map_err(refused)?,
            (None, None) => return Ok(None),
        };
        if let Some(issuer) = &self.jwt_issuer {
            jwt = jwt.issuer(issuer);
        }
        if let Some(audience) = &self.jwt_audience {
            jwt = jwt.audience(audience);
        }
        Ok(Some(jwt))
    }
}

pub(crate) async fn run(args: Args, global: &Global, output: Output) -> Result<Exit, Failure> {
    until_stopped(global, async |place, stop| serve(&args, place, output, stop).await).await
}

async fn serve(args: &Args, place: &Place, output: Output, stop: CancellationToken) -> Result<(), Failure> {
    for sentence in seed_variables(|name| std::env::var_os(name).is_some()) {
        tracing::warn!("{sentence}");
    }
    raise_file_limit();
    let bugle = place.bugle(args.connections).await?;
    let options =
        Options { listen: args.listen, jwt: args.jwt()?, tls: args.tls(), patience: args.patience() };
    let server = Server::bind(bugle, options).await?;
    announce(&server, place, output)?;
    tokio::select! {
        ended = server.run(stop) => ended.map_err(|error| Failure::system("serve", &error)),
        failure = place.is_gone() => Err(failure),
    }
}

/// Says where it listens and what to try.
fn announce(server: &Server, place: &Place, output: Output) -> Result<(), Failure> {
    let url = format!("{}://{}", server.scheme(), server.address());
    if output.asked_for_json() {
        output.json(&serde_json::json!({ "listening": url, "open": server.is_open() }))?;
        return Ok(());
    }
    output.text(&format!(
        "\
bugle serves {url} on {database}
{access}
try it:
  curl -X POST {url}/api/v1/push -d '{{\"items\": [{{\"queue\": \"orders\", \"payload\": {{\"order\": 42}}}}]}}'
  curl '{url}/api/v1/pop/queue/orders?wait=true&autoAck=true'
  curl {url}/api/v1/resources/queues
Ctrl-C stops it
",
        database = place.describe(),
        access = if server.is_open() {
            "there are no keys: everybody on this machine may do everything, and nobody else gets in"
        } else {
            "callers need a key (bugle key create)"
        },
    ))?;
    Ok(())
}

/// Every waiting client is an open file, and the usual limit of 1,024 is few.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files could not be raised: fewer clients can wait at once");
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match &error {
            StartError::OpenToOthers { .. } | StartError::Tls { .. } => Self::user(error.to_string()),
            _ => Self::server(error.to_string()),
        }
    }
}
