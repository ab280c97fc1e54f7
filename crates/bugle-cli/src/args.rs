//! What may be typed.

use crate::commands::{
    ack, bench, completions, config, dead, demo, dlq, doctor, durable, enqueue, flow, group, job, key,
    migrate, namespace, pop, push, queue, serve, tail, wake, work,
};
use crate::output::Output;
use bugle::name::{NamespaceName, SchemaName};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  bugle demo                                            see it work: a live view, workers that you may kill
  bugle enqueue mail send_receipt '{\"order\": 42}'       write a job, print its id
  bugle work --queue mail --exec ./send-receipt         run a command for each job
  bugle serve                                           messages over HTTP, from any language
  bugle job wait 42 --timeout 30s                       until it has ended, and what came of it
  bugle job why 42                                      what does it wait for?
  bugle dead ls                                         what went wrong?
  bugle durable ls                                      orchestrations of the duroxide provider
  bugle push orders '{\"order\": 42}'                      write a message, print its id
  bugle pop orders --group mailer --wait 30s            lease it to a group, waiting for it
  bugle flow start order --input @order.json            start a run of a workflow
  bugle flow show 42                                    how far is it?
  bugle doctor                                          is the database fit for it?

Where the data is:
  With --database-url (or BUGLE_DATABASE_URL, or DATABASE_URL) in that PostgreSQL. Without one, in a private PostgreSQL
  that Bugle runs in --data-dir. Several commands may use one data folder at once: one runs the server (demo, work
  or serve, when there is one) and the others join it. The server stops with the command that runs it.

Exit codes:
  0 done   1 the request is wrong   2 the database or machine could not do it   3 not allowed   4 nothing to do
  of a job or run that was waited for: 5 it is dead, or failed   6 it was cancelled   7 it has not ended in time";

/// Work dispatch on the PostgreSQL you already run.
#[derive(Debug, Parser)]
#[command(name = "bugle", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[allow(clippy::doc_markdown, clippy::struct_excessive_bools)] // these are help texts, and switches
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// The database, as postgres://user:password@host:port/database [env: BUGLE_DATABASE_URL, then DATABASE_URL]
    #[arg(long, global = true, value_name = "URL", conflicts_with_all = ["data_dir", "ephemeral"])]
    pub(crate) database_url: Option<String>,
    /// Where the listener connects, straight to the server; needed behind a pooler in transaction mode [env: BUGLE_LISTENER_URL]
    #[arg(long, global = true, value_name = "URL", hide_short_help = true)]
    pub(crate) listener_url: Option<String>,
    /// An option of the wake engine, as NAME=VALUE; `bugle config show` lists them [env: BUGLE_WAKE, separated by commas]
    #[arg(long = "wake", global = true, value_name = "NAME=VALUE", hide_short_help = true)]
    pub(crate) wake: Vec<String>,
    /// Run a private PostgreSQL in this folder, or join the one that runs there [default: bugle/postgres in the data home]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Run a private PostgreSQL in a temporary folder that is removed at the end
    #[arg(long, global = true, conflicts_with = "data_dir")]
    pub(crate) ephemeral: bool,
    /// The schema that holds Bugle's tables
    #[arg(long, global = true, value_name = "NAME", env = "BUGLE_SCHEMA", default_value_t, value_parser = SchemaName::parse)]
    pub(crate) schema: SchemaName,
    /// The namespace to work in
    #[arg(long, global = true, value_name = "NAME", env = "BUGLE_NAMESPACE", default_value_t, value_parser = NamespaceName::parse)]
    pub(crate) namespace: NamespaceName,
    /// Work even on a server that may lose what it has accepted (fsync, full_page_writes or synchronous_commit off)
    #[arg(long, global = true)]
    pub(crate) allow_unsafe_database: bool,
    /// Never change the schema: refuse when it is not up to date
    #[arg(long, global = true)]
    pub(crate) no_migrate: bool,
    /// A table or JSON [default: a table on a terminal, JSON in a pipe]
    #[arg(long, short, global = true, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
    /// The same as --output json
    #[arg(long, global = true, conflicts_with = "output")]
    pub(crate) json: bool,
    /// Say more on standard error; twice for much more (or set BUGLE_LOG)
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

impl Global {
    /// How the answer shall be written, if that was said.
    pub(crate) fn format(&self) -> Option<Format> {
        if self.json { Some(Format::Json) } else { self.output }
    }
}

/// How the answer is written: for people, or for programs. (Comments on the variants would make every help text twice as long.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(demo::Args),
    Enqueue(enqueue::Args),
    Work(work::Args),
    Serve(serve::Args),
    /// Look at jobs, ask why they wait, try them again or cancel them
    #[command(subcommand)]
    Job(job::Command),
    Push(push::Args),
    Pop(pop::Args),
    Ack(ack::Args),
    Tail(tail::Args),
    /// Look at consumer groups of messages, move them, delete them
    #[command(subcommand)]
    Group(group::Command),
    /// Look at dead letters: messages that are dead for a group; put them back, or delete them
    #[command(subcommand)]
    Dlq(dlq::Command),
    /// Look at queues, make and empty those of messages, pause and resume, and set how their waiters are woken
    #[command(subcommand)]
    Queue(queue::Command),
    /// Look at jobs that are out of attempts; make many of them ready again, or delete them
    #[command(subcommand)]
    Dead(dead::Command),
    /// Look at orchestrations, cancel them, send them events, delete those that have ended
    Durable(durable::Args),
    /// Define workflows, start runs, look at them, ask why they wait, and what a person does to them
    Flow(flow::Args),
    /// See who sleeps, who is rung for, and what becomes due next
    #[command(subcommand)]
    Wake(wake::Command),
    /// See every option with its value
    #[command(subcommand)]
    Config(config::Command),
    /// Make and list namespaces
    #[command(subcommand)]
    Namespace(namespace::Command),
    /// Make, list and revoke API keys for those who come over the network
    #[command(subcommand)]
    Key(key::Command),
    /// Bring the schema up to date, or see what that would do
    #[command(subcommand)]
    Migrate(migrate::Command),
    Doctor(doctor::Args),
    /// Measure, on the machine that it runs on
    #[command(subcommand)]
    Bench(bench::Command),
    Completions(completions::Args),
    /// One worker of the demo, a process of its own so that it can be killed.
    #[command(hide = true)]
    DemoWorker(demo::worker::Args),
}

impl Command {
    /// Does it draw on the whole terminal, where a log line would be a blot?
    pub(crate) fn owns_the_terminal(&self, output: Output) -> bool {
        matches!(self, Self::Demo(_)) && output.is_a_live_terminal()
    }
}
