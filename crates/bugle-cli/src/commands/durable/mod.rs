//! `bugle durable`: orchestrations of the duroxide provider, and what a person does to them.

mod cancel;
mod ls;
mod purge;
mod raise;
mod row;
mod show;
mod stats;
mod waits;

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;
use bugle::pg::migrate;
use bugle_duroxide::{DEFAULT_SCHEMA, DUROXIDE, Found, Options, Policy, PostgresProvider, SchemaName, Which};
use duroxide::{Client, ClientError};
use std::sync::Arc;

pub(crate) use raise::read as read_payload;

/// What a person does to orchestrations.
#[allow(clippy::doc_markdown)] // these are help texts
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle durable stats                                       how much is there, and does anybody work on it?
  bugle durable ls --status running                         what is under way?
  bugle durable show order-42                               what does it wait for?
  bugle durable raise order-42 approval '{\"by\": \"Ada\"}'   tell it
  bugle durable purge --older-than 30d                      what could go?")]
pub(crate) struct Args {
    /// The schema of the provider's tables, which is not the one of --schema
    #[arg(long, global = true, value_name = "NAME", env = "BUGLE_DURABLE_SCHEMA", default_value = DEFAULT_SCHEMA, value_parser = SchemaName::parse)]
    durable_schema: SchemaName,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Looking at orchestrations, and what a person does to them.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Ls(ls::Args),
    Show(show::Args),
    Cancel(cancel::Args),
    Raise(raise::Args),
    Purge(purge::Args),
    Stats(stats::Args),
}

/// `payload` is that of `raise`, which is read before anybody connects.
pub(crate) async fn run(
    args: &Args,
    payload: Option<String>,
    global: &Global,
    place: &Place,
    output: Output,
) -> Result<Exit, Failure> {
    let desk = Desk::open(&args.durable_schema, global, place).await?;
    match &args.command {
        Command::Ls(args) => ls::run(args, &desk, output).await,
        Command::Show(args) => show::run(args, &desk, output).await,
        Command::Cancel(args) => cancel::run(args, &desk, output).await,
        Command::Raise(args) => raise::run(args, payload.unwrap_or_default(), &desk, output).await,
        Command::Purge(args) => purge::run(args, &desk, output).await,
        Command::Stats(_) => stats::run(&desk, output).await,
    }
}

/// What every command works with.
struct Desk {
    provider: PostgresProvider,
    client: Client,
}

impl Desk {
    /// Never makes or changes tables: they belong to the programs that run the orchestrations.
    async fn open(schema: &SchemaName, global: &Global, place: &Place) -> Result<Self, Failure> {
        let pool = place.pool(2, global.allow_unsafe_database).await?;
        match DUROXIDE.verify(&pool, schema).await {
            Ok(()) => {}
            Err(migrate::Error::Behind { missing, .. }) => return Err(not_there(schema, missing)),
            Err(error) => return Err(error.into()),
        }
        let options = Options { schema: schema.clone(), migrate: Policy::Verify, ..Options::default() };
        let provider = PostgresProvider::with_pool(pool, options).await?;
        let client = Client::new(Arc::new(provider.clone()));
        Ok(Self { provider, client })
    }

    /// The instance, which must be there.
    async fn find(&self, id: &str) -> Result<Found, Failure> {
        self.look_for(id).await?.ok_or_else(|| missing(id, self.provider.schema()))
    }

    async fn look_for(&self, id: &str) -> Result<Option<Found>, Failure> {
        let which = Which { id: Some(id.to_owned()), ..Which::default() };
        Ok(self.provider.find_instances(&which, 1).await.map_err(not_read)?.pop())
    }
}

fn not_there(schema: &SchemaName, missing: usize) -> Failure {
    if missing == DUROXIDE.files.len() {
        return Failure::nothing(format!(
            "schema {schema} has no tables of the duroxide provider; name the schema that your programs give to \
             PostgresProvider with --durable-schema (they are made when the first of them starts)"
        ));
    }
    Failure::server(format!(
        "schema {schema} lacks {missing} of the migrations that this version needs; start a program with this version of \
         bugle-duroxide, which applies them, or use the bugle command of the version that your programs have"
    ))
}

/// There is no such instance, or not yet, or no longer.
fn missing(id: &str, schema: &SchemaName) -> Failure {
    Failure::nothing(format!(
        "there is no instance {id:?} in schema {schema}; look with `bugle durable ls` (one that was just started is there \
         after its first turn)"
    ))
}

/// Looking failed: nothing has happened.
fn not_read(error: impl Into<ClientError>) -> Failure {
    Failure::server(format!("the database could not be asked: {}", error.into()))
}

/// Writing failed: what may pass may also have happened.
fn not_written(error: impl Into<ClientError>) -> Failure {
    let error = error.into();
    if error.is_retryable() {
        Failure::unknown(format!("the database did not answer: {error}; look with `bugle durable show`"))
    } else {
        Failure::user(error.to_string())
    }
}

/// Has its current execution ended for good?
fn has_ended(status: &str) -> bool {
    matches!(status, "Completed" | "Failed")
}
