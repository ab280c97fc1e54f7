//! Dead jobs, many at once.
use crate::fixture::{Fixture, raw};
use bugle::jobs::inspect::{DeadFilter, DeadGroup, DeadWalk};
use bugle::jobs::{Failure, Queue};
use bugle::{Bugle, JobId};
use sqlx::postgres::PgListener;
use std::time::Duration;

/// `n` jobs of this queue and kind, dead of this error.
async fn bury(f: &Fixture, bugle: &Bugle, queue: &Queue, kind: &str, code: &str, n: usize) -> Vec<JobId> {
    let payloads = (0..n).map(|_| raw("1")).collect();
    let ids = bugle.enqueue_many_raw(queue.name().as_str(), kind, payloads).send().await.unwrap();
    let mut left = n;
    while left > 0 {
        let look = queue.claim("w", 1_000, Duration::from_secs(30)).await.unwrap();
        left -= look.jobs.len();
        let failures: Vec<_> = look
            .jobs
            .iter()
            .map(|job| Failure {
                receipt: job.receipt,
                retry_in: None,
                code: code.to_owned(),
                message: "no".to_owned(),
            })
            .collect();
        queue.fail(&failures, &[look.token]).await.unwrap();
    }
    f.counts().await;
    ids
}

fn walk(f: &Fixture, filter: &DeadFilter) -> DeadWalk {
    f.bugle.walk_dead(filter.clone()).unwrap()
}

async fn found(f: &Fixture, filter: &DeadFilter) -> Vec<(String, String, String, i64)> {
    let (mut walk, mut all) = (walk(f, filter), Vec::new());
    while let Some((_, groups)) = walk.find().await.unwrap() {
        all.extend(
            groups.into_iter().map(|DeadGroup { queue, kind, code, jobs, .. }| (queue, kind, code, jobs)),
        );
    }
    all.sort();
    all
}

async fn redriven(f: &Fixture, filter: &DeadFilter) -> i32 {
    let (mut walk, mut jobs) = (walk(f, filter), 0);
    while let Some(step) = walk.redrive().await.unwrap() {
        jobs += step.changed;
    }
    jobs
}

async fn purged(f: &Fixture, filter: &DeadFilter) -> i32 {
    let (mut walk, mut jobs) = (walk(f, filter), 0);
    while let Some(step) = walk.purge().await.unwrap() {
        jobs += step.changed;
    }
    jobs
}

#[tokio::test]
async fn filters_choose_and_what_they_leave_stays_dead() {
    let f = Fixture::new().await;
    let other = f.bugle.queue("other").await.unwrap();
    bury(&f, &f.bugle, &f.queue, "mail", "smtp", 3).await;
    bury(&f, &f.bugle, &f.queue, "mail", "dns", 2).await;
    bury(&f, &f.bugle, &other, "sms", "smtp", 4).await;
    let any = DeadFilter::default();
    let of = |queue: &str, kind: &str, code: &str, n| (queue.to_owned(), kind.to_owned(), code.to_owned(), n);
    assert_eq!(
        found(&f, &any).await,
        [of("other", "sms", "smtp", 4), of("q", "mail", "dns", 2), of("q", "mail", "smtp", 3)]
    );
    let smtp_of_q = DeadFilter { queue: Some("q".into()), code: Some("smtp".into()), ..any.clone() };
    assert_eq!(found(&f, &smtp_of_q).await, [of("q", "mail", "smtp", 3)]);
    let old = DeadFilter { older_than: Some(Duration::from_hours(1)), ..any.clone() };
    assert_eq!((found(&f, &old).await.len(), redriven(&f, &old).await, purged(&f, &old).await), (0, 0, 0));
    assert_eq!(f.bugle.list_dead(&smtp_of_q, 2).await.unwrap().len(), 2);
    assert_eq!(f.bugle.list_dead(&old, 9).await.unwrap().len(), 0);

    assert_eq!(redriven(&f, &smtp_of_q).await, 3);
    assert_eq!(f.counts().await, "ready 3, dead 6");
    assert_eq!(redriven(&f, &smtp_of_q).await, 0, "nothing is left to do");
    assert_eq!(purged(&f, &DeadFilter { kind: Some("sms".into()), ..any.clone() }).await, 4);
    assert_eq!(f.counts().await, "ready 3, dead 2");
    f.execute("UPDATE bugle.dead SET died_at = now() - interval '2 hours'").await;
    assert_eq!(purged(&f, &old).await, 2);
    assert_eq!(f.counts().await, "ready 3");
}

/// Failed attempts are dropped by age, dead jobs are not.
#[tokio::test]
async fn a_dead_job_knows_its_last_error_when_its_attempts_are_forgotten() {
    let f = Fixture::new().await;
    let failed = bury(&f, &f.bugle, &f.queue, "k", "smtp", 1).await[0];
    let expired = f.bugle.enqueue_raw("q", "k", raw("1")).max_attempts(1).send().await.unwrap();
    f.claim_and_let_expire(1).await;
    f.queue.sweep().await.unwrap();
    let last = async |id| {
        let attempts = f.bugle.show_job(id).await.unwrap().unwrap().failures;
        attempts.into_iter().map(|a| (a.attempt, a.worker, a.code, a.message)).collect::<Vec<_>>()
    };
    let kept = [last(failed).await, last(expired).await];
    f.execute("TRUNCATE bugle.failure").await;
    assert_eq!([last(failed).await, last(expired).await], kept, "shown as before");
    let of = |code: &str| DeadFilter { code: Some(code.into()), ..DeadFilter::default() };
    for (id, code, message) in
        [(failed, "smtp", "no"), (expired, "lease_expired", "the lease ended before the job did")]
    {
        let listed = f.bugle.list_dead(&of(code), 9).await.unwrap();
        let listed: Vec<_> = listed.iter().map(|d| (d.id, &*d.code, &*d.message, &*d.worker)).collect();
        assert_eq!(listed, [(id, code, message, "w")]);
        assert_eq!(redriven(&f, &of(code)).await, 1);
    }
    assert_eq!(f.counts().await, "ready 2");
}

#[tokio::test]
async fn a_redriven_job_has_all_its_attempts_anew() {
    let f = Fixture::new().await;
    let ids = bury(&f, &f.bugle, &f.queue, "k", "x", 2).await;
    assert_eq!(redriven(&f, &DeadFilter::default()).await, 2);
    let look = f.claim(10).await;
    assert_eq!(
        look.jobs.iter().map(|job| (job.id, job.attempt)).collect::<Vec<_>>(),
        [(ids[0], 1), (ids[1], 1)]
    );
}

#[tokio::test]
async fn many_are_changed_in_steps_that_each_end() {
    let f = Fixture::new().await;
    bury(&f, &f.bugle, &f.queue, "k", "x", 2_500).await;
    assert_eq!(found(&f, &DeadFilter::default()).await.iter().map(|group| group.3).sum::<i64>(), 2_500);
    let mut walk = walk(&f, &DeadFilter::default());
    let mut steps = Vec::new();
    while let Some(step) = walk.redrive().await.unwrap() {
        steps.push((step.read, step.changed));
    }
    assert_eq!(steps, [(1_000, 1_000), (1_000, 1_000), (500, 500)]);
    assert_eq!(f.counts().await, "ready 2500");
}

#[tokio::test]
async fn two_who_redrive_at_once_make_each_job_ready_once() {
    let f = Fixture::new().await;
    bury(&f, &f.bugle, &f.queue, "k", "x", 2_200).await;
    let any = DeadFilter::default();
    let (one, other) = tokio::join!(redriven(&f, &any), redriven(&f, &any));
    assert_eq!(one + other, 2_200);
    assert_eq!(f.counts().await, "ready 2200");
}

/// A stranger looks at one of them in a transaction that stays open.
#[tokio::test]
async fn a_step_does_not_wait_for_a_stranger() {
    let f = Fixture::new().await;
    let ids = bury(&f, &f.bugle, &f.queue, "k", "x", 3).await;
    let mut tx = f.db.pool().begin().await.unwrap();
    let lock = f.db.sql("SELECT 1 FROM bugle.dead WHERE id = $1 FOR UPDATE").unwrap();
    sqlx::query(lock).bind(ids[1].0).execute(&mut *tx).await.unwrap();
    let both =
        async { (redriven(&f, &DeadFilter::default()).await, purged(&f, &DeadFilter::default()).await) };
    let changed = tokio::time::timeout(Duration::from_secs(10), both).await.expect("it does not wait");
    assert_eq!(changed, (2, 0));
    tx.rollback().await.unwrap();
    assert_eq!(purged(&f, &DeadFilter::default()).await, 1);
    assert_eq!(f.counts().await, "ready 2");
}

/// However many jobs a step makes ready, a sleeper is rung for once.
#[tokio::test]
async fn a_step_rings_once() {
    let f = Fixture::new().await;
    bury(&f, &f.bugle, &f.queue, "k", "x", 50).await;
    let channel: String = f.one("SELECT bugle.bell_channel()").await;
    let mut ear = PgListener::connect_with(f.db.pool()).await.unwrap();
    ear.listen(&channel).await.unwrap();
    let mut sentinel = f.session().await;
    let bell = f.db.sql("SELECT pg_advisory_lock(bugle.bell_class(), bugle.bucket_of(1))").unwrap();
    sqlx::query(bell).execute(&mut sentinel).await.unwrap();
    assert_eq!(redriven(&f, &DeadFilter::default()).await, 50);
    sqlx::query("SELECT pg_notify($1, 'the end')").bind(&channel).execute(f.db.pool()).await.unwrap();
    assert_eq!(ear.recv().await.unwrap().payload(), "1:1");
    assert_eq!(ear.recv().await.unwrap().payload(), "the end");
}

#[tokio::test]
async fn dead_jobs_of_another_namespace_are_not_touched() {
    let f = Fixture::new().await;
    bury(&f, &f.bugle, &f.queue, "k", "x", 2).await;
    let name = bugle::name::NamespaceName::parse("other").unwrap();
    f.bugle.create_namespace(&name).await.unwrap();
    let options =
        bugle::Options { schema: f.db.schema_name().unwrap(), namespace: name, ..Default::default() };
    let other = Bugle::new(f.db.pool().clone(), options).await.unwrap();
    let its_queue = other.queue("q").await.unwrap();
    bury(&f, &other, &its_queue, "k", "x", 1).await;
    assert_eq!(purged(&f, &DeadFilter::default()).await, 2);
    assert_eq!(other.list_dead(&DeadFilter::default(), 10).await.unwrap().len(), 1);
    assert_eq!(f.counts().await, "dead 1");
}
