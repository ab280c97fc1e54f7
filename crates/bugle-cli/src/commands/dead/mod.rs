//! `bugle dead`: jobs that are out of attempts, and what becomes of many of them.

mod change;
mod ls;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;
use crate::span;
use bugle::jobs::inspect::DeadFilter;
use bugle::name::{Kind, QueueName};
use std::fmt::Write as _;
use std::time::Duration;

/// Jobs that are out of attempts.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Ls(ls::Args),
    /// Make dead jobs ready again, with all their attempts anew; shows which, unless --yes
    #[command(after_help = change::REDRIVE)]
    Redrive(change::Args),
    /// Delete dead jobs for good; shows which, unless --yes
    #[command(after_help = change::PURGE)]
    Purge(change::Args),
}

/// Which of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Which {
    /// Only this queue
    #[arg(long, value_parser = QueueName::parse)]
    queue: Option<QueueName>,
    /// Only this kind
    #[arg(long, value_parser = Kind::parse)]
    kind: Option<Kind>,
    /// Only those whose last attempt failed with this error code
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// Only those that died at least so long ago, such as 2h or 30d
    #[arg(long, value_name = "TIME", value_parser = span::parse)]
    older_than: Option<Duration>,
}

impl Which {
    fn filter(&self) -> DeadFilter {
        DeadFilter {
            queue: self.queue.as_ref().map(ToString::to_string),
            kind: self.kind.as_ref().map(ToString::to_string),
            code: self.code.clone(),
            older_than: self.older_than,
        }
    }

    /// What was asked for, in words.
    fn describe(&self) -> String {
        let mut text = "dead jobs".to_owned();
        if let Some(queue) = &self.queue {
            let _ = write!(text, " of queue {queue}");
        }
        if let Some(kind) = &self.kind {
            let _ = write!(text, " of kind {kind}");
        }
        if let Some(code) = &self.code {
            let _ = write!(text, " with error {code:?}");
        }
        if let Some(age) = self.older_than {
            let _ = write!(text, " that died at least {} ago", span::short(age));
        }
        text
    }
}

pub(crate) async fn run(command: &Command, place: &Place, output: Output) -> Result<Exit, Failure> {
    let bugle = place.bugle(2).await?;
    match command {
        Command::Ls(args) => ls::run(args, &bugle, output).await,
        Command::Redrive(args) => change::run(change::Act::Redrive, args, &bugle, output).await,
        Command::Purge(args) => change::run(change::Act::Purge, args, &bugle, output).await,
    }
}
