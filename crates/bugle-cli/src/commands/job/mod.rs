//! `bugle job`: looking at jobs, and what a person does to them.

mod cancel;
mod ls;
mod retry;
mod show;
mod wait;
mod why;

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use bugle::{Bugle, JobId};
use serde::Serialize;

/// Looking at jobs, and what a person does to them.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Ls(ls::Args),
    Show(show::Args),
    Why(why::Args),
    Wait(wait::Args),
    Retry(retry::Args),
    Cancel(cancel::Args),
}

pub(crate) async fn run(command: &Command, global: &Global, output: Output) -> Result<Exit, Failure> {
    match command {
        Command::Ls(args) => on_bugle(global, async |bugle| ls::run(args, bugle, output).await).await,
        Command::Show(args) => on_bugle(global, async |bugle| show::run(args, bugle, output).await).await,
        Command::Why(args) => on_bugle(global, async |bugle| why::run(args, bugle, output).await).await,
        Command::Wait(args) => wait::run(args, global, output).await,
        Command::Retry(args) => on_bugle(global, async |bugle| retry::run(args, bugle, output).await).await,
        Command::Cancel(args) => on_bugle(global, async |bugle| cancel::run(args, bugle, output).await).await,
    }
}

async fn on_bugle(
    global: &Global,
    work: impl AsyncFnOnce(&Bugle) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    super::on_place(global, async |place| work(&place.bugle(2).await?).await).await
}

/// There is no such job, or no longer.
fn missing(id: JobId, bugle: &Bugle) -> Failure {
    Failure::nothing(format!(
        "there is no job {id} in namespace {}; look with `bugle job ls` (ended jobs are kept for some days)",
        bugle.namespace()
    ))
}

/// What became of one of several jobs.
#[derive(Debug, Serialize)]
struct Answer {
    id: JobId,
    /// The state that it was in; none when there is no such job.
    was: Option<String>,
    changed: bool,
    result: String,
}

/// Does the same to each job and tells what came of it. One that nothing could be done to makes the exit code 4.
async fn each(
    ids: &[JobId],
    bugle: &Bugle,
    output: Output,
    change: impl AsyncFn(JobId) -> Result<Option<(bugle::jobs::State, String)>, Failure>,
    otherwise: &str,
) -> Result<Exit, Failure> {
    let mut answers = Vec::new();
    for (done, id) in ids.iter().enumerate() {
        let answer = answer(*id, bugle, &change, otherwise).await;
        answers.push(answer.map_err(|failure| match done {
            0 => failure,
            _ => failure.after(&format!("at job {id}; the {done} before it were changed")),
        })?);
    }
    output.rows(&answers, || {
        let columns = [("id", Align::Right), ("was", Align::Left), ("result", Align::Left)];
        let mut table = Table::new(&columns).uncut();
        for a in &answers {
            table.row([a.id.to_string(), a.was.clone().unwrap_or_else(|| "-".to_owned()), a.result.clone()]);
        }
        table
    })?;
    Ok(if answers.iter().all(|a| a.changed) { Exit::Ok } else { Exit::Nothing })
}

async fn answer(
    id: JobId,
    bugle: &Bugle,
    change: &impl AsyncFn(JobId) -> Result<Option<(bugle::jobs::State, String)>, Failure>,
    otherwise: &str,
) -> Result<Answer, Failure> {
    // Ids are numbers of the whole schema: only a job of this namespace may be touched.
    let Some(found) = bugle.show_job(id).await? else {
        return Ok(Answer { id, was: None, changed: false, result: "no such job".to_owned() });
    };
    Ok(match change(id).await? {
        Some((was, result)) => Answer { id, was: Some(was.to_string()), changed: true, result },
        None => Answer { id, was: Some(found.row.state), changed: false, result: otherwise.to_owned() },
    })
}
