//! `bugle job retry`.

use super::each;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use bugle::jobs::State;
use bugle::{Bugle, JobId};

/// Make dead or scheduled jobs ready now (a dead one with all its attempts anew)
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  bugle job retry 42 43\n\nExit code 4 when one of them is neither dead nor scheduled."
)]
pub(crate) struct Args {
    /// The jobs' numbers
    #[arg(required = true, value_name = "ID")]
    ids: Vec<JobId>,
}

pub(super) async fn run(args: &Args, bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    let retry = async |id| {
        let was = bugle.retry_job(id).await?;
        Ok(was.map(|was| {
            let result = match was {
                State::Dead => "ready, with all its attempts anew",
                _ => "ready",
            };
            (was, result.to_owned())
        }))
    };
    each(&args.ids, bugle, output, retry, "left as it is: only a dead or scheduled job can be retried").await
}
