//! `bugle bench contender`: Bugle's side of a comparison with other libraries, each of which is asked for the same phases by the same
//! environment variables and answers with the same line of JSON.

mod enqueue;
mod idle;
mod pick_up;
mod settings;

use super::drain::{self, Drained, SLOTS, drain};
use super::figure::rounded;
use super::fill::fill;
use super::ground::quiet;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use bugle::pg::connect;
use bugle::{Bugle, Options};
use serde::Serialize;
use settings::{Phase, Settings};
use sqlx::{Connection as _, PgConnection};

pub(crate) const METHOD: &str = "\
Does the phases that BENCH_PHASES names on the empty database at URL, which it migrates itself, with payloads of about 100 bytes, all in this
one process; prints one line of JSON with a field for each of them.
  a  BENCH_N jobs, one call each from BENCH_CONC callers: `single_per_s` through the default enqueue on a pool; `own_tx_per_s` each in a
     transaction of its own on the caller's own connection; `bulk_per_s` as many jobs by one caller, BENCH_BULK a call
  b  BENCH_N jobs enqueued in bulk, then drained by one worker: every job leased, run by a registered handler that does nothing and acked
     by its token, until nothing is open (`seconds`; `handlers_done_s` until the last handler had started). `handled` is what the handlers
     counted; `cut_off` says that BENCH_DRAIN_MAX_S was not enough
  c  an idle worker and one job every BENCH_LAT_MS, BENCH_LAT_N of them: from before the enqueue call to the start of the handler
  d  a worker with 4 idle slots for BENCH_IDLE_S, after coming to rest for as long, but at most 11 s: commits and rollbacks a second of the
     database by pg_stat_database, the meter's own taken off, and the connections
Environment:
  BENCH_PHASES=abcd BENCH_N=20000 BENCH_BULK=500 BENCH_CONC=8 BENCH_LAT_N=100 BENCH_LAT_MS=100 BENCH_IDLE_S=30 BENCH_DRAIN_MAX_S=300
Example:
  BENCH_PHASES=ab BENCH_N=1000 bugle bench contender postgres://me@localhost/empty";

/// Connections of a node unless there are more callers: what a program gets that says nothing about it.
const CONNECTIONS: u32 = 10;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The empty database, as postgres://user:password@host:port/database
    #[arg(value_name = "URL")]
    url: String,
}

/// The line.
#[derive(Serialize)]
struct Line {
    peer: &'static str,
    version: &'static str,
    lang: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    a: Option<enqueue::Answer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    b: Option<DrainAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    c: Option<pick_up::Answer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    d: Option<idle::Answer>,
}

#[derive(Serialize)]
struct DrainAnswer {
    jobs_per_s: f64,
    seconds: f64,
    handlers_done_s: f64,
    n: usize,
    handled: usize,
    cut_off: bool,
    settings: String,
}

/// The database, and what was asked for.
struct Contender {
    connect: connect::Options,
    settings: Settings,
}

pub(crate) async fn run(args: &Args, allow_unsafe: bool, output: Output) -> Result<Exit, Failure> {
    let settings = Settings::read(|name| std::env::var(name).ok())?;
    let callers = u32::try_from(settings.callers).unwrap_or(u32::MAX);
    let connect = connect::Options {
        connections_max: CONNECTIONS.max(callers),
        allow_unsafe,
        ..connect::Options::from(quiet(connect::Options::parse(&args.url)?.connect))
    };
    let contender = Contender { connect, settings };
    contender.check_empty().await?;
    let line = contender.measure().await?;
    // One line also on a terminal: this is for the program that compares.
    let text = serde_json::to_string(&line).map_err(|e| Failure::server(e.to_string()))?;
    output.line(&text)?;
    Ok(Exit::Ok)
}

impl Contender {
    async fn measure(&self) -> Result<Line, Failure> {
        let mut line = Line {
            peer: "bugle",
            version: env!("CARGO_PKG_VERSION"),
            lang: "rust",
            a: None,
            b: None,
            c: None,
            d: None,
        };
        for phase in &self.settings.phases {
            let bugle = self.node().await?;
            match phase {
                Phase::Enqueue => line.a = Some(enqueue::measure(&bugle, &self.settings).await?),
                Phase::Drain => line.b = Some(self.drain(&bugle).await?),
                Phase::PickUp => line.c = Some(pick_up::measure(&bugle, &self.settings).await?),
                Phase::Idle => {
                    line.d = Some(idle::measure(&bugle, &self.connect.connect, &self.settings).await?);
                }
            }
            bugle.close().await;
        }
        Ok(line)
    }

    /// A handle of a phase's own: no connection of an earlier phase is left when it begins.
    async fn node(&self) -> Result<Bugle, Failure> {
        Ok(Bugle::new(connect::pool(&self.connect).await?, Options::default()).await?)
    }

    /// It writes jobs that nobody needs: never among those of an application.
    async fn check_empty(&self) -> Result<(), Failure> {
        let mut connection = PgConnection::connect_with(&self.connect.connect).await?;
        let used: bool =
            sqlx::query_scalar(include_str!("../sql/is_used.sql")).fetch_one(&mut connection).await?;
        connection.close().await?;
        if used {
            return Err(Failure::user("the database has a Bugle in it already; give it an empty one"));
        }
        Ok(())
    }

    async fn drain(&self, bugle: &Bugle) -> Result<DrainAnswer, Failure> {
        let queue = "contender_b";
        let (jobs, batch) = (self.settings.jobs, self.settings.bulk);
        fill(bugle, queue, jobs, batch).await?;
        let plan = drain::Plan { queue, jobs, slots: SLOTS, early: 0, most: self.settings.drain_max };
        let drained = drain(bugle, plan).await?;
        let Drained { handled, handlers_done, took, cut_off, .. } = drained;
        Ok(DrainAnswer {
            jobs_per_s: rounded(drained.per_s(), 1),
            seconds: rounded(took.as_secs_f64(), 4),
            handlers_done_s: rounded(handlers_done.as_secs_f64(), 4),
            n: jobs,
            handled,
            cut_off,
            settings: format!("one worker, {SLOTS} slots, history kept, otherwise defaults"),
        })
    }
}
