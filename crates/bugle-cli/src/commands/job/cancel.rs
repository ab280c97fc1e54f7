//! `bugle job cancel`.

use super::each;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use bugle::jobs::State;
use bugle::{Bugle, JobId};

/// End jobs that have not ended
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  bugle job cancel 42 43

A scheduled or ready job will never start. Of a leased one a worker may be running the handler: every node is told; whatever
the handler still does, its result is ignored and the job is not tried again. Exit code 4 when one of them has ended already or
does not exist.")]
pub(crate) struct Args {
    /// The jobs' numbers
    #[arg(required = true, value_name = "ID")]
    ids: Vec<JobId>,
}

pub(super) async fn run(args: &Args, bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    let cancel = async |id| {
        let was = bugle.cancel_job(id).await?;
        Ok(was.map(|was| {
            let result = match was {
                State::Leased => "cancelled; a worker may be running it, its result will be ignored",
                _ => "cancelled; it will never start",
            };
            (was, result.to_owned())
        }))
    };
    each(&args.ids, bugle, output, cancel, "left as it is: it has ended already").await
}
