//! Jobs that were lost with a worker: one of them may have killed it.
use crate::fixture::{Fixture, ids};
use crate::work::{Add, quick, settled, soon, start};
use bugle::{Ctx, JobId};
use std::sync::Arc;
use tokio::sync::{Barrier, Semaphore, mpsc};

/// Three jobs that a dead worker had, each with one attempt used up.
async fn lost(f: &Fixture, max_attempts: u16) -> Vec<JobId> {
    let jobs: Vec<Add> = (0..3).map(|n| Add { n }).collect();
    let ids = f.bugle.enqueue_many(&jobs).max_attempts(max_attempts).send().await.unwrap();
    assert_eq!(f.claim_and_let_expire(3).await.jobs.len(), 3);
    ids
}

/// Takes back what has ended, and claims it.
async fn claim_again(f: &Fixture) -> bugle::jobs::Look {
    assert!(f.claim(10).await.jobs.is_empty(), "this look takes them back, the next hands them out");
    f.claim(10).await
}

#[tokio::test]
async fn at_the_last_attempt_what_a_worker_had_not_begun_is_spared() {
    let f = Fixture::new().await;
    let jobs = lost(&f, 2).await;
    let look = claim_again(&f).await;
    assert_eq!(ids(&look.jobs), jobs);
    f.execute(&format!("INSERT INTO bugle.begun VALUES ('w', {}, {})", look.token, jobs[1])).await;
    f.expire(look.token).await;
    let look = claim_again(&f).await;
    assert_eq!(ids(&look.jobs), [jobs[0], jobs[2]]);
    assert!(look.jobs.iter().all(|job| job.attempt == 2), "it was not counted");
    assert_eq!(f.counts().await, "leased 2, dead 1");
    assert_eq!(f.bugle.show_job(jobs[0]).await.unwrap().unwrap().failures.len(), 1, "nor noted");
}

/// Whoever does not say what it begins may have begun everything.
#[tokio::test]
async fn what_others_have_begun_spares_nothing() {
    let f = Fixture::new().await;
    lost(&f, 2).await;
    let look = claim_again(&f).await;
    f.execute("INSERT INTO bugle.begun VALUES ('another', 1, 1)").await;
    f.expire(look.token).await;
    assert!(claim_again(&f).await.jobs.is_empty());
    assert_eq!(f.counts().await, "dead 3");
}

/// Before the last attempt every end of a lease counts, begun or not.
#[tokio::test]
async fn with_attempts_to_spare_nothing_is_spared() {
    let f = Fixture::new().await;
    let jobs = lost(&f, 4).await;
    let look = claim_again(&f).await;
    f.execute(&format!("INSERT INTO bugle.begun VALUES ('w', {}, {})", look.token, jobs[1])).await;
    f.expire(look.token).await;
    assert!(claim_again(&f).await.jobs.iter().all(|job| job.attempt == 3));
}

#[tokio::test]
async fn at_their_last_attempt_jobs_that_were_lost_run_one_by_one_and_say_so_first() {
    let f = Fixture::new().await;
    lost(&f, 2).await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let worker = quick(&f).handle({
        let gate = gate.clone();
        move |_: Add, ctx: Ctx| {
            started.send(ctx.id).unwrap();
            let gate = gate.clone();
            async move { gate.acquire().await.unwrap().forget() }
        }
    });
    let counters = worker.counters();
    let (stop, running) = start(worker);
    for _ in 0..3 {
        let job = soon(starts.recv()).await.unwrap();
        let begun = format!("SELECT count(*) FROM bugle.begun WHERE worker = 'w' AND id = {job}");
        assert_eq!(f.one::<i64>(&begun).await, 1, "the database knows");
        let others_came = async {
            while counters.put_off.get() < 2 {
                tokio::task::yield_now().await;
            }
        };
        soon(others_came).await;
        assert!(starts.try_recv().is_err(), "no other one runs");
        gate.add_permits(1);
    }
    settled(&f, "done 3").await;
    stop.cancel();
    running.await.unwrap().unwrap();
}

/// Most workers die of something else: their jobs are in nobody's way.
#[tokio::test]
async fn with_attempts_to_spare_jobs_that_were_lost_run_together() {
    let f = Fixture::new().await;
    lost(&f, 3).await;
    let all = Arc::new(Barrier::new(3));
    let worker = quick(&f).handle(move |_: Add, ctx: Ctx| {
        let all = all.clone();
        async move {
            assert_eq!(ctx.attempt, 2);
            all.wait().await;
        }
    });
    let (stop, running) = start(worker);
    settled(&f, "done 3").await;
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_was_begun_long_ago_is_trimmed_when_its_lease_is_gone() {
    let f = Fixture::new().await;
    f.enqueue(1).await;
    let look = f.claim(1).await;
    f.execute(&format!("INSERT INTO bugle.begun VALUES ('w', {}, 1), ('w', 7, 2)", look.token)).await;
    f.execute("SELECT bugle.trim(now() + interval '1 day')").await;
    assert_eq!(f.one::<i64>("SELECT count(*) FROM bugle.begun").await, 2);
    f.execute("SELECT bugle.trim(now() + interval '3 days')").await;
    assert_eq!(f.one::<i64>("SELECT token FROM bugle.begun").await, look.token);
}
