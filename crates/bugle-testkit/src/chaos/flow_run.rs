//! Runs of workflows under faults: what they need before, and a verdict afterwards.

use super::flow::{self, DEFINITION, Line};
use super::node::Node;
use super::run::Run;
use bugle::flow::RunId;
use sqlx::AssertSqlSafe;
use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

/// Faults of which this many are told.
const FAULTS_TOLD: usize = 20;

/// What became of the workflows of a run.
#[derive(Debug, Default)]
pub struct FlowReport {
    /// What is wrong, a line each.
    pub faults: Vec<String>,
    /// Runs that were started.
    pub runs: i64,
    /// Starts whose answer was lost: asked again, or by a process that is dead.
    pub unknown_starts: usize,
    /// Steps that were taken over from somebody who had begun them.
    pub taken_over: i64,
}

impl fmt::Display for FlowReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { faults, runs, unknown_starts, taken_over } = self;
        writeln!(f, "{runs} runs, {unknown_starts} unknown starts, {taken_over} steps taken over")?;
        writeln!(f, "{} faults", faults.len())?;
        faults.iter().take(FAULTS_TOLD).try_for_each(|fault| writeln!(f, "  {fault}"))
    }
}

/// What starters asked for and were told, by the key.
#[derive(Default)]
struct Started {
    asked: usize,
    got: Vec<RunId>,
}

impl Run {
    /// The definition, and a table for what handlers do.
    pub async fn prepare_flow(&self) -> anyhow::Result<()> {
        self.bugle.flow().define(&flow::definition()?).await?;
        let table = "CREATE TABLE bugle.chaos_effect (run bigint, step text, attempt int, at timestamptz DEFAULT clock_timestamp())";
        self.flow_sql(table).await
    }

    /// Ends all leases, as if their time had passed: whoever has one does not know it yet.
    pub async fn end_leases(&self) -> anyhow::Result<()> {
        // Those that somebody holds just now are left out: in one order with nobody, this would wait in a circle.
        self.flow_sql(
            "UPDATE bugle.lease SET until = clock_timestamp() WHERE token = ANY (ARRAY(SELECT token FROM bugle.lease FOR UPDATE SKIP LOCKED))",
        )
        .await
    }

    async fn flow_sql(&self, sql: &str) -> anyhow::Result<()> {
        let sql = AssertSqlSafe(self.bugle.schema().place_in(sql));
        Ok(sqlx::raw_sql(sql).execute(self.bugle.pool()).await.map(drop)?)
    }

    async fn flow_count(&self, sql: &str) -> anyhow::Result<i64> {
        let sql = AssertSqlSafe(self.bugle.schema().place_in(sql));
        Ok(sqlx::query_scalar(sql).fetch_one(self.bugle.pool()).await?)
    }

    /// Ends the starters, asks again for what they were not told, lets the others finish what is open, and judges. `crashed`: the server did, and
    /// with it claims are forgotten that are not flushed.
    pub async fn finish_flow(
        self,
        starters: Vec<Node>,
        workers: Vec<Node>,
        crashed: bool,
    ) -> anyhow::Result<FlowReport> {
        for node in starters {
            node.stop().await?;
        }
        let mut report = FlowReport::default();
        self.check_starts(&mut report).await?;
        let begun = Instant::now();
        let open = "SELECT count(*) FROM bugle.run WHERE ended_at IS NULL";
        while self.flow_count(open).await? > 0 && begun.elapsed() < self.drain_max {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for node in workers {
            if self.keeps_history {
                node.stop().await?;
            } else {
                node.kill()?; // of a broken system nobody knows whether it drains
            }
        }
        let faults = AssertSqlSafe(self.bugle.schema().place_in(include_str!("flow_faults.sql")));
        let faults: Vec<String> =
            sqlx::query_scalar(faults).bind(crashed).fetch_all(self.bugle.pool()).await?;
        report.faults.extend(faults);
        report.runs = self.flow_count("SELECT count(*) FROM bugle.run").await?;
        let taken = "SELECT count(*) FROM bugle.flow_event WHERE no > 0 AND from_state = 'running' AND to_state = 'running'";
        report.taken_over = self.flow_count(taken).await?;
        eprintln!("{report}");
        Ok(report)
    }

    /// A run that was told of is there, and is the only one that was ever told of; and asking once more tells of it as well.
    async fn check_starts(&self, report: &mut FlowReport) -> anyhow::Result<()> {
        let mut starts: HashMap<String, Started> = HashMap::new();
        for file in flow::files_of_starters(self.folder.path())? {
            for line in std::fs::read_to_string(file)?.lines() {
                match serde_json::from_str(line)? {
                    Line::Ask(key) => starts.entry(key).or_default().asked += 1,
                    Line::Got(key, run) => starts.entry(key).or_default().got.push(run),
                }
            }
        }
        let flow = self.bugle.flow();
        for (key, mut started) in starts {
            report.unknown_starts += started.asked - started.got.len();
            let is_told = !started.got.is_empty();
            if is_told && flow.show(started.got[0]).await?.is_none_or(|run| run.key.as_ref() != Some(&key)) {
                report.faults.push(format!("run {} was told of, and is not there", started.got[0]));
            }
            if !is_told {
                let input: u64 = key.rsplit('-').next().unwrap_or_default().parse()?;
                started.got.push(flow.start(DEFINITION, &input).key(&key).send().await?.id());
            }
            started.got.dedup();
            if started.got.len() > 1 {
                report.faults.push(format!("the key {key} was answered with {:?}", started.got));
            }
        }
        Ok(())
    }
}
