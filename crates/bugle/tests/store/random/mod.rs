//! Random lives of jobs, compared step by step with a model in memory: whatever is done in whatever order, the answers and the states are
//! those of docs/state-machines.md. A failure is shrunk to the shortest life that shows it.
//!
//! What runs at the same time as something else is the business of `stress` and of the fault matrix.

mod model;

use crate::fixture::{Fixture, LEASE, raw};
use bugle::jobs::{Failure, Queue, Receipt};
use bugle::{Bugle, JobId, Priority};
use model::{Model, State};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;
use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);

/// Something that is done. A number chooses among the jobs, or the receipts, that there are.
#[derive(Debug, Clone)]
enum Step {
    Enqueue {
        later: bool,
        lane: usize,
        max_attempts: u16,
        key: Option<u8>,
    },
    Claim(u32),
    Ack(usize),
    Fail {
        which: usize,
        retry: bool,
    },
    Release(usize),
    Snooze(usize),
    /// All leases end, and are swept.
    Expire,
    Cancel(usize),
    Retry(usize),
    /// The time of all scheduled jobs comes.
    ComeDue,
    Pause,
    Resume,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<bool>(), 0..4_usize, 1..4_u16, proptest::option::weighted(0.3, 0..3_u8))
            .prop_map(|(later, lane, max_attempts, key)| Step::Enqueue { later, lane, max_attempts, key }),
        6 => (1..5_u32).prop_map(Step::Claim),
        3 => any::<usize>().prop_map(Step::Ack),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(which, retry)| Step::Fail { which, retry }),
        2 => any::<usize>().prop_map(Step::Release),
        2 => any::<usize>().prop_map(Step::Snooze),
        1 => Just(Step::Expire),
        2 => any::<usize>().prop_map(Step::Cancel),
        2 => any::<usize>().prop_map(Step::Retry),
        2 => Just(Step::ComeDue),
        1 => Just(Step::Pause),
        1 => Just(Step::Resume),
    ]
}

/// One life of a queue of its own.
struct Life<'f> {
    f: &'f Fixture,
    bugle: &'f Bugle,
    queue: Queue,
    model: Model,
    /// Every receipt ever given out, old ones too.
    receipts: Vec<Receipt>,
}

impl Life<'_> {
    async fn take(&mut self, step: &Step) {
        match *step {
            Step::Enqueue { later, lane, max_attempts, key } => {
                self.enqueue(later, lane, max_attempts, key).await;
            }
            Step::Claim(most) => self.claim(most).await,
            Step::Ack(which) => {
                let Some(receipt) = self.receipt(which) else { return };
                let ended = self.queue.ack(&[receipt], &[]).await.unwrap();
                self.answered(receipt, &ended, |model, id| model.end(id, State::Done));
            }
            Step::Fail { which, retry } => {
                let Some(receipt) = self.receipt(which) else { return };
                let failure = Failure {
                    receipt,
                    code: "c".to_owned(),
                    message: "m".to_owned(),
                    retry_in: retry.then_some(HOUR),
                };
                let ended = self.queue.fail(&[failure], &[]).await.unwrap();
                let ended: Vec<JobId> = ended.iter().map(|ended| ended.id).collect();
                self.answered(receipt, &ended, |model, id| model.fail(id, retry));
            }
            Step::Release(which) => {
                let Some(receipt) = self.receipt(which) else { return };
                let ended = self.queue.release(&[receipt], &[]).await.unwrap();
                self.answered(receipt, &ended, |model, id| model.end(id, State::Ready));
            }
            Step::Snooze(which) => {
                let Some(receipt) = self.receipt(which) else { return };
                let ended = self.queue.snooze(&[(receipt, HOUR)], &[]).await.unwrap();
                self.answered(receipt, &ended, |model, id| model.end(id, State::Scheduled));
            }
            Step::Expire => {
                self.here("UPDATE bugle.lease SET until = clock_timestamp() WHERE queue = $1").await;
                let swept = self.queue.sweep().await.unwrap();
                assert_eq!(usize::try_from(swept).unwrap(), self.model.expire(), "swept");
            }
            Step::Cancel(which) => {
                let Some(id) = self.model.pick(which) else { return };
                let was = self.bugle.cancel_job(JobId(id)).await.unwrap();
                assert_eq!(was.map(|was| was.to_string()), self.model.cancel(id), "cancel {id}");
            }
            Step::Retry(which) => {
                let Some(id) = self.model.pick(which) else { return };
                let was = self.bugle.retry_job(JobId(id)).await.unwrap();
                assert_eq!(was.map(|was| was.to_string()), self.model.retry(id), "retry {id}");
            }
            Step::ComeDue => {
                self.here(
                    "UPDATE bugle.due SET due_at = clock_timestamp() - interval '1 second' WHERE queue = $1",
                )
                .await;
                self.model.come_due();
            }
            Step::Pause => self.pause(true).await,
            Step::Resume => self.pause(false).await,
        }
    }

    async fn enqueue(&mut self, later: bool, lane: usize, max_attempts: u16, key: Option<u8>) {
        let lanes = [Priority::Urgent, Priority::High, Priority::Normal, Priority::Low];
        let mut job = self.bugle.enqueue_raw(self.queue.name().as_str(), "k", raw("1"));
        job = job.priority(lanes[lane]).max_attempts(max_attempts);
        if later {
            job = job.delay(HOUR);
        }
        if let Some(key) = key {
            job = job.key(&key.to_string());
        }
        let id = job.send().await.unwrap();
        self.model.enqueue(id.0, later, max_attempts, key);
    }

    async fn claim(&mut self, most: u32) {
        let look = self.queue.claim("w", most, LEASE).await.unwrap();
        let claimed: Vec<(i64, u16)> = look.jobs.iter().map(|job| (job.id.0, job.attempt)).collect();
        self.model.claim(most, &claimed);
        for job in &look.jobs {
            self.receipts.push(job.receipt);
            self.model.held(job.id.0, job.receipt);
        }
    }

    async fn pause(&mut self, paused: bool) {
        let name = self.queue.name().as_str();
        let changed = if paused { self.bugle.pause(name).await } else { self.bugle.resume(name).await };
        assert_eq!(changed.unwrap(), self.model.paused != paused, "pause {paused}");
        self.model.paused = paused;
    }

    fn receipt(&self, which: usize) -> Option<Receipt> {
        (!self.receipts.is_empty()).then(|| self.receipts[which % self.receipts.len()])
    }

    /// A receipt works if the job is held by it, and only then.
    fn answered(&mut self, receipt: Receipt, ended: &[JobId], then: impl FnOnce(&mut Model, i64)) {
        let id = receipt.id();
        if self.model.is_held_by(id.0, receipt) {
            assert_eq!(ended, [id], "the receipt is good");
            then(&mut self.model, id.0);
        } else {
            assert!(ended.is_empty(), "the receipt of {id} is worthless");
        }
    }

    /// States and attempts by the tables, and the counters.
    async fn compare(&self) {
        let sql = self.f.db.sql(
            "SELECT id, state, attempt FROM bugle.job_view WHERE queue = bugle.find_queue('default', $1)",
        );
        let rows: Vec<(i64, String, i16)> = sqlx::query_as(sql.unwrap())
            .bind(self.queue.name().as_str())
            .fetch_all(self.f.db.pool())
            .await
            .unwrap();
        let there: BTreeMap<i64, String> = rows.into_iter().map(|(id, state, _)| (id, state)).collect();
        assert_eq!(there, self.model.states(), "the tables");
        let row = self.bugle.find_queue(self.queue.name().as_str()).await.unwrap().unwrap();
        let counted = [row.scheduled, row.ready, row.leased, row.done, row.dead, row.cancelled];
        assert_eq!(counted, self.model.counts(), "the counters");
    }

    async fn here(&self, sql: &str) {
        let sql = sql.replace("$1", &format!("bugle.find_queue('default', '{}')", self.queue.name()));
        self.f.execute(&sql).await;
    }
}

#[test]
fn whatever_is_done_in_whatever_order_is_as_the_state_machine_says() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let f = runtime.block_on(Fixture::new());
    let lives = std::cell::Cell::new(0);
    let config = Config { cases: 48, failure_persistence: None, ..Config::default() };
    let tried = TestRunner::new(config).run(&vec(step(), 1..60), |steps| {
        lives.set(lives.get() + 1);
        runtime.block_on(async {
            let queue = f.bugle.queue(&format!("life {}", lives.get())).await.unwrap();
            let mut life =
                Life { f: &f, bugle: &f.bugle, queue, model: Model::default(), receipts: Vec::new() };
            for step in &steps {
                life.take(step).await;
                life.compare().await;
            }
        });
        Ok(())
    });
    if let Err(error) = tried {
        panic!("{error}");
    }
    runtime.block_on(f.bugle.close());
}
