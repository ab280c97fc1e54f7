//! `bugle key`: API keys for those who come over the network.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::place::Place;
use crate::span;
use bugle::Bugle;
use bugle::access::{KeyRow, NewKey, Right, Scope};
use serde_json::json;
use std::time::Duration;

const CREATE: &str = "\
Rights are push, pop (and settle), inspect and admin; none includes another. The secret is shown once: the database has its hash
alone. A key belongs to the namespace that it was made in.

Examples:
  bugle key create shop --allow push,pop:orders.               queues whose names begin with orders.
  bugle key create board --allow inspect --expires-in 90d      all queues, for 90 days
  bugle key create etl --allow pop:orders. --allow push:facts.";

const REVOKE: &str = "\
Servers that can hear the database refuse it at once, all others within 5 seconds. It stays in the list, and its name is free. Exit
code 4 when there is no such key.

Example:
  bugle key revoke shop";

/// API keys.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a key, and show its secret this once
    #[command(after_help = CREATE)]
    Create {
        /// Its name, for people
        name: String,
        /// Rights, and the beginning of the names of the queues that they are for [default: all queues]
        #[arg(long, value_name = "RIGHTS[:QUEUES]", required = true, value_parser = scope)]
        allow: Vec<Scope>,
        /// It may be used for so long, such as 90d [default: for ever]
        #[arg(long, value_name = "TIME", value_parser = span::parse)]
        expires_in: Option<Duration>,
    },
    /// List the keys of the namespace, with what they are for and when they were last used
    #[command(after_help = "Example:\n  bugle key ls")]
    Ls,
    /// Revoke a key
    #[command(after_help = REVOKE)]
    Revoke {
        /// Its name
        name: String,
    },
}

/// Reads `push,pop:orders.`.
fn scope(text: &str) -> Result<Scope, bugle::Error> {
    let (rights, queues) = text.split_once(':').unwrap_or((text, ""));
    let rights: Vec<Right> = rights.split(',').map(str::parse).collect::<Result<_, _>>()?;
    Scope::new(queues, rights)
}

pub(crate) async fn run(command: &Command, place: &Place, output: Output) -> Result<Exit, Failure> {
    let bugle = place.bugle(2).await?;
    match command {
        Command::Create { name, allow, expires_in } => create(name, allow, *expires_in, &bugle, output).await,
        Command::Ls => {
            let keys = bugle.access().list().await?;
            output.rows(&keys, || table(&keys, output))?;
            Ok(Exit::Ok)
        }
        Command::Revoke { name } => {
            if !bugle.access().revoke(name).await? {
                return Err(Failure::nothing(format!(
                    "there is no API key {name:?} in namespace {}; `bugle key ls` lists them",
                    bugle.namespace()
                )));
            }
            if output.is_json() {
                output.json(&json!({ "name": name, "revoked": true }))?;
            } else {
                output.line(&format!("{name}: revoked"))?;
            }
            Ok(Exit::Ok)
        }
    }
}

async fn create(
    name: &str,
    allow: &[Scope],
    expires_in: Option<Duration>,
    bugle: &Bugle,
    output: Output,
) -> Result<Exit, Failure> {
    let mut key = allow.iter().cloned().fold(NewKey::new(name)?, NewKey::scope);
    if let Some(lifetime) = expires_in {
        key = key.lifetime(lifetime);
    }
    let (secret, row) = bugle.access().create(&key).await?;
    if output.is_json() {
        let mut answer = json!(row);
        answer["secret"] = json!(secret.reveal());
        output.json(&answer)?;
    } else {
        output.line(secret.reveal())?;
        output.line(&format!("{}: {}; keep the secret, it is not shown again", row.name, describe(&row)))?;
    }
    Ok(Exit::Ok)
}

/// What a key is for, in the words that made it.
fn describe(key: &KeyRow) -> String {
    let scope = |scope: &Scope| {
        let rights: Vec<_> = scope.rights().iter().map(|right| right.as_str()).collect();
        let queues = if scope.queues().is_empty() { String::new() } else { format!(":{}", scope.queues()) };
        format!("{}{queues}", rights.join(","))
    };
    key.scopes.iter().map(scope).collect::<Vec<_>>().join(" ")
}

fn table(keys: &[KeyRow], output: Output) -> Table {
    let left = |name| (name, Align::Left);
    let mut table = Table::new(&[
        left("key"),
        left("state"),
        left("allows"),
        left("made"),
        left("expires"),
        left("last used"),
    ]);
    for key in keys {
        table.row([
            key.name.clone(),
            key.state.clone(),
            describe(key),
            output.moment(key.created_at),
            output.moment_or_dash(key.expires_at),
            output.moment_or_dash(key.used_at),
        ]);
    }
    table
}
