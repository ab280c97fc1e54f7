//! Pausing a queue, and resuming it.
use crate::fixture::{Fixture, ids, raw, receipts};
use sqlx::Connection as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[tokio::test]
async fn a_paused_queue_hands_out_nothing_and_what_is_leased_goes_on() {
    let f = Fixture::new().await;
    let sent = f.enqueue(5).await;
    let held = f.claim(2).await;
    assert!(f.bugle.pause("q").await.unwrap());
    assert!(!f.bugle.pause("q").await.unwrap(), "it was paused already");
    assert!(f.bugle.list_queues().await.unwrap()[0].paused);

    let look = f.claim(10).await;
    assert!(look.jobs.is_empty() && !look.full);
    let more = f.enqueue(1).await;
    assert!(f.claim(10).await.jobs.is_empty());
    assert_eq!(
        f.queue.ack(&receipts(&held.jobs), &[held.token]).await.unwrap().len(),
        2,
        "running jobs are settled"
    );
    assert_eq!(f.counts().await, "ready 4, done 2");

    assert!(f.bugle.resume("q").await.unwrap());
    assert!(!f.bugle.resume("q").await.unwrap(), "it was not paused");
    assert!(!f.bugle.list_queues().await.unwrap()[0].paused);
    assert_eq!(ids(&f.claim(10).await.jobs), [&sent[2..], &more].concat(), "where it had left off");
    assert_eq!(f.counts().await, "leased 4, done 2");
}

#[tokio::test]
async fn another_queue_is_not_paused() {
    let f = Fixture::new().await;
    f.enqueue(1).await;
    f.bugle.queue("other").await.unwrap();
    assert!(f.bugle.pause("other").await.unwrap());
    assert_eq!(f.claim(10).await.jobs.len(), 1);
}

#[tokio::test]
async fn a_claim_that_waited_for_the_pause_finds_nothing() {
    let f = Fixture::new().await;
    f.enqueue(3).await;
    let mut session = f.session().await;
    let mut tx = session.begin().await.unwrap();
    sqlx::raw_sql(f.db.sql("SELECT bugle.pause('q')").unwrap()).execute(&mut *tx).await.unwrap();
    let queue = f.queue.clone();
    let claim = tokio::spawn(async move { queue.claim("w", 10, Duration::from_secs(30)).await.unwrap() });
    f.waits_for_the_queue().await;
    tx.commit().await.unwrap();
    assert!(claim.await.unwrap().jobs.is_empty(), "it began before the pause, but not under the lock");
    assert_eq!(f.counts().await, "ready 3");
}

#[tokio::test]
async fn a_pause_that_waited_for_a_claim_forgets_nothing_of_it() {
    let f = Fixture::new().await;
    let sent = f.enqueue(3).await;
    let mut session = f.session().await;
    let mut tx = session.begin().await.unwrap();
    let look =
        "SELECT bugle.look('{1}', '{1}', '{w}', '{2}', '{1 minute}', '{f}', '{-infinity}', '{-infinity}')";
    sqlx::raw_sql(f.db.sql(look).unwrap()).execute(&mut *tx).await.unwrap();
    let bugle = f.bugle.clone();
    let pause = tokio::spawn(async move { bugle.pause("q").await.unwrap() });
    f.waits_for_the_queue().await;
    tx.commit().await.unwrap();
    assert!(pause.await.unwrap());
    assert!(f.claim(10).await.jobs.is_empty());
    f.bugle.resume("q").await.unwrap();
    assert_eq!(ids(&f.claim(10).await.jobs), sent[2..], "none twice");
    assert_eq!(f.counts().await, "leased 3");
}

/// The cursor passes transactions that are open; a pause must not forget which.
#[tokio::test]
async fn a_late_commit_is_found_after_a_pause() {
    let f = Fixture::new().await;
    let mut session = f.session().await;
    let mut tx = session.begin().await.unwrap();
    let late = f.bugle.enqueue_raw("q", "k", raw("1")).on(&mut *tx).await.unwrap();
    f.enqueue(1).await;
    assert_eq!(f.claim(10).await.jobs.len(), 1);
    f.bugle.pause("q").await.unwrap();
    tx.commit().await.unwrap();
    assert!(f.claim(10).await.jobs.is_empty());
    let waiting = f.bugle.list_queues().await.unwrap()[0].oldest_ready;
    assert!(waiting.is_some(), "it is ready though the cursor has passed it");
    f.bugle.resume("q").await.unwrap();
    assert_eq!(ids(&f.claim(10).await.jobs), [late]);
}

#[tokio::test]
async fn what_becomes_due_waits_as_well_and_a_look_still_tells_of_it() {
    let f = Fixture::new().await;
    f.bugle.pause("q").await.unwrap();
    let later = f.bugle.enqueue_raw("q", "k", raw("1")).delay(Duration::from_mins(1)).send().await.unwrap();
    f.execute("UPDATE bugle.due SET due_at = now() - interval '1 hour'").await;
    let sql = "SELECT again_us IS NULL AND next_due < now() FROM bugle.look('{1}', '{1}', '{w}', '{9}', '{1 minute}', '{f}', '{-infinity}', '{-infinity}')";
    assert!(f.one::<bool>(sql).await, "nobody looks again for it, but it is not forgotten");
    assert_eq!(f.counts().await, "scheduled 1");
    f.bugle.resume("q").await.unwrap();
    assert!(f.claim(1).await.jobs.is_empty(), "this look moves it");
    assert_eq!(ids(&f.claim(1).await.jobs), [later]);
}

#[tokio::test]
async fn an_ended_lease_is_taken_back_while_paused() {
    let f = Fixture::new().await;
    let sent = f.enqueue(1).await;
    f.claim_and_let_expire(1).await;
    f.bugle.pause("q").await.unwrap();
    assert!(f.claim(1).await.jobs.is_empty());
    assert_eq!(f.counts().await, "ready 1");
    f.bugle.resume("q").await.unwrap();
    let again = f.claim(1).await;
    assert_eq!((ids(&again.jobs), again.jobs[0].attempt), (sent, 2));
}

#[tokio::test]
async fn a_rebase_leaves_a_queue_paused() {
    let f = Fixture::new().await;
    f.enqueue(1).await;
    f.bugle.pause("q").await.unwrap();
    f.execute("SELECT bugle.rebase()").await;
    assert!(f.claim(1).await.jobs.is_empty());
    f.bugle.resume("q").await.unwrap();
    assert_eq!(f.claim(1).await.jobs.len(), 1);
}

#[tokio::test]
async fn what_cannot_be_paused_is_refused_with_a_sentence() {
    let f = Fixture::new().await;
    for refused in [f.bugle.pause("nowhere").await, f.bugle.resume("nowhere").await] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("queue \"nowhere\" does not exist in namespace \"default\""), "{refused}");
    }
    let mut session = f.session().await;
    let mut tx = session.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    let pause = sqlx::query(f.db.sql("SELECT bugle.pause('q')").unwrap());
    let refused = pause.execute(&mut *tx).await.unwrap_err().to_string();
    assert!(refused.contains("pause runs in repeatable read"), "{refused}");
}

/// Claims wait for a queue's lock: who has it may not wait for a stranger who changes something else.
#[tokio::test]
async fn neither_pause_nor_cancel_waits_for_a_stranger_who_changes_control() {
    let f = Fixture::new().await;
    let sent = f.enqueue(1).await;
    f.claim(1).await;
    let mut session = f.session().await;
    let mut tx = session.begin().await.unwrap();
    sqlx::raw_sql(f.db.sql("SELECT bugle.set_mode('q', 'shadow')").unwrap()).execute(&mut *tx).await.unwrap();
    let both = async {
        f.bugle.cancel_job(sent[0]).await.unwrap();
        f.bugle.pause("q").await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(10), both).await.expect("neither waits");
}

#[tokio::test]
async fn pausing_resuming_and_cancelling_what_runs_ring_control() {
    let f = Fixture::new().await;
    let sent = f.enqueue(2).await;
    let version = async || f.one::<i64>("SELECT version FROM bugle.control").await;
    let before = version().await;
    f.bugle.cancel_job(sent[1]).await.unwrap();
    assert_eq!(version().await, before, "nobody runs it");
    f.claim(1).await;
    f.bugle.cancel_job(sent[0]).await.unwrap();
    assert_eq!(version().await, before + 1);
    f.bugle.pause("q").await.unwrap();
    f.bugle.pause("q").await.unwrap();
    assert_eq!(version().await, before + 2, "once");
    f.bugle.resume("q").await.unwrap();
    assert_eq!(version().await, before + 3);
}

/// Claims at full speed from four sides, and a pause again and again: the total that was handed out stands still under each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_handed_out_between_pause_and_resume_however_many_claim() {
    let f = Fixture::new().await;
    let stop = Arc::new(AtomicBool::new(false));
    let claimers: Vec<_> = (0..4)
        .map(|n| {
            let (queue, stop) = (f.queue.clone(), stop.clone());
            tokio::spawn(async move {
                let mut done = 0;
                while !stop.load(Ordering::Relaxed) {
                    let look = queue.claim(&format!("w{n}"), 3, Duration::from_secs(30)).await.unwrap();
                    done += queue.ack(&receipts(&look.jobs), &[look.token]).await.unwrap().len();
                }
                done
            })
        })
        .collect();
    let claimed = async || f.one::<i64>("SELECT claimed FROM bugle.newest_cursor WHERE queue = 1").await;
    let mut enqueued = 0;
    for _ in 0..30 {
        enqueued += f.enqueue(20).await.len();
        assert!(f.bugle.pause("q").await.unwrap());
        let before = claimed().await;
        enqueued += f.enqueue(5).await.len();
        for _ in 0..3 {
            assert!(f.claim(10).await.jobs.is_empty());
        }
        assert_eq!(claimed().await, before);
        assert!(f.bugle.resume("q").await.unwrap());
    }
    while f.counted().await.contains("ready") {
        tokio::task::yield_now().await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut done = 0;
    for claimer in claimers {
        done += claimer.await.unwrap();
    }
    assert_eq!(done, enqueued, "each once");
    assert_eq!(f.counts().await, format!("done {enqueued}"));
}
