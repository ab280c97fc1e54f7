//! `bugle work`: runs a command for each job.

mod lifeline;
mod program;
mod stderr_tail;

use crate::args::Global;
use crate::commands::until_stopped::until_stopped;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::place::Place;
use crate::{retry, span};
use bugle::jobs::Backoff;
use bugle::limits::{CLAIM_JOBS_MAX, WORKER_NAME_BYTES_MAX};
use bugle::name::{Kind, QueueName};
use bugle::{Bugle, Worker};
use program::Program;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Run a command for each job of a queue
///
/// The payload is the command's standard input. BUGLE_JOB_ID, BUGLE_JOB_QUEUE, BUGLE_JOB_KIND,
/// BUGLE_JOB_ATTEMPT and BUGLE_JOB_MAX_ATTEMPTS are in its environment. Its exit code decides what
/// becomes of the job:
///
///   0     done
///   65    dead at once: it can never succeed (EX_DATAERR)
///   else  failed: tried again by the rule of --retry, and dead when the attempts are used up
///
/// A command killed by a signal has failed with the code `signal`, one that took longer than --timeout
/// with the code `timeout`: it is told to end (SIGTERM) and killed two seconds later, with all that it
/// started. The end of its standard error is kept as the error message (`bugle job show`). Its standard
/// output is this command's own.
///
/// Retry rules, for jobs that were not enqueued with one of their own:
///
///   exponential:BASE..MAX  waits BASE, twice that, four times that, and so on, up to MAX; a fifth of
///                          each wait is random, or what ,jitter=PART says (0 to 1)
///   table:WAIT,WAIT,...    the wait before each attempt, the first one 0s; after as many attempts the
///                          job is dead, also if it was enqueued with more
///   never                  the first failure is the end
///
/// Jobs are handed out in line, whatever their kind. With --kind, one of another kind fails with the code
/// `no_handler`: give kinds that need another command a queue of their own.
///
/// The first Ctrl-C or SIGTERM drains: no new jobs, and running commands may go on for the drain time.
/// Those left are killed and their jobs given back, the attempt not counted. A second Ctrl-C ends at
/// once; the jobs run elsewhere when their leases end. So do those of a `bugle work` that was killed:
/// its commands end with it. A command whose lease was lost is killed, for somebody else runs its job.
#[allow(clippy::doc_markdown)] // this is a help text
#[derive(Debug, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  bugle work --queue mail --exec ./send-receipt
  bugle work --queue mail --exec ./send-receipt --retry table:0s,30s,5m -- --from shop@example.org
  bugle work --queue thumbs --concurrency 8 --exec sh -- -c 'convert - \"out/$BUGLE_JOB_ID.png\"'
  bugle work --queue import --until-empty --exec ./import-row        ends when no job is open"
)]
pub(crate) struct Args {
    /// The queue; made when it is not there
    #[arg(long, value_parser = QueueName::parse)]
    queue: QueueName,
    /// The program to run, a path or a name on the PATH; no shell reads it
    #[arg(long, value_name = "PROGRAM")]
    exec: OsString,
    /// Words before -- that are nobody's: taken to say where they belong.
    #[arg(value_name = "WORD", hide = true)]
    stray: Vec<OsString>,
    /// The program's arguments: everything after --
    #[arg(last = true, value_name = "ARG")]
    arguments: Vec<OsString>,
    /// The kinds that the command is for, each with an option of its own [default: every kind]
    #[arg(long, value_name = "KIND", value_parser = Kind::parse)]
    kind: Vec<Kind>,
    /// How many commands run at once
    #[arg(long, value_name = "N", default_value_t = 4, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=i64::from(CLAIM_JOBS_MAX)))]
    concurrency: u32,
    /// How long a job stays ours without a sign of life (renewed every third of it while the command runs)
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = span::parse, allow_hyphen_values = true)]
    lease: Duration,
    /// How long a command may take before it is ended and the attempt has failed [default: as long as it likes]
    #[arg(long, value_name = "TIME", value_parser = span::parse, allow_hyphen_values = true)]
    timeout: Option<Duration>,
    /// When a failed job is tried again: exponential:BASE..MAX, table:WAIT,WAIT,... or never; see above
    #[arg(long, value_name = "RULE", default_value = "exponential:1s..15m", value_parser = retry::parse, allow_hyphen_values = true)]
    retry: Backoff,
    /// How long running commands may go on after the order to stop
    #[arg(long, value_name = "TIME", default_value = "25s", value_parser = span::parse, allow_hyphen_values = true)]
    drain: Duration,
    /// End when the queue has no job that is scheduled, ready or leased
    #[arg(long)]
    until_empty: bool,
    /// The name under which jobs are held [default: host, process and something random]
    #[arg(long, value_name = "NAME", value_parser = worker_name)]
    name: Option<String>,
}

/// How often `--until-empty` asks.
const ASK_IF_EMPTY_EVERY: Duration = Duration::from_millis(200);

pub(crate) async fn run(args: Args, global: &Global) -> Result<Exit, Failure> {
    if let Some(word) = args.stray.first() {
        let (word, program) = (word.to_string_lossy(), args.exec.to_string_lossy());
        return Err(Failure::user(format!(
            "{word:?} belongs to no option; the program's arguments go after --: --exec {program} -- {word}"
        )));
    }
    let program =
        Program::find(&args.exec, &args.arguments, args.queue.as_str())?.limited(&args.kind, args.timeout)?;
    until_stopped(global, async |place, stop| work(args, program, place, stop).await).await
}

async fn work(args: Args, program: Program, place: &Place, stop: CancellationToken) -> Result<(), Failure> {
    let bugle = place.bugle(4).await?;
    if args.until_empty {
        tokio::spawn(stop_when_empty(bugle.clone(), args.queue.clone(), stop.clone()));
    }
    if std::io::stderr().is_terminal() {
        eprintln!("working on queue {}, {} at once; Ctrl-C drains and ends", args.queue, args.concurrency);
    }
    if bugle.find_queue(args.queue.as_str()).await?.is_some_and(|queue| queue.paused) {
        tracing::warn!(queue = %args.queue, "The queue is paused: no job is handed out until `bugle queue resume {}`.", args.queue);
    }
    let program = Arc::new(program);
    let mut worker: Worker = bugle
        .worker(args.queue.as_str())
        .concurrency(args.concurrency)
        .lease(args.lease)
        .drain(args.drain)
        .backoff(args.retry)
        .handle_any(move |job, _ctx| {
            let program = program.clone();
            async move { program.run(job).await }
        });
    if let Some(name) = args.name {
        worker = worker.name(name);
    }
    tokio::select! {
        ended = worker.run(stop) => Ok(ended?),
        failure = place.is_gone() => Err(failure),
    }
}

/// Asks the counters, which never count the jobs themselves.
async fn stop_when_empty(bugle: Bugle, queue: QueueName, stop: CancellationToken) {
    loop {
        match bugle.find_queue(queue.as_str()).await {
            Ok(open) => {
                if open.is_none_or(|q| q.scheduled + q.ready + q.leased == 0) {
                    stop.cancel();
                }
            }
            Err(error) => tracing::warn!(%error, "the queue's counts could not be read, trying again"),
        }
        if stop.run_until_cancelled(tokio::time::sleep(ASK_IF_EMPTY_EVERY)).await.is_none() {
            return;
        }
    }
}

fn worker_name(name: &str) -> Result<String, String> {
    if name.is_empty() || name.len() > WORKER_NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(format!(
            "it is {} bytes long; use 1 to 255 bytes without control characters",
            name.len()
        ));
    }
    Ok(name.to_owned())
}
