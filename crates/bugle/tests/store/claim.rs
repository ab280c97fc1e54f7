//! Handing out jobs: what must not go wrong.
use crate::fixture::{Fixture, LEASE, ids, raw, receipts};
use bugle::Error;
use chrono::{DateTime, Utc};
use sqlx::Connection as _;
use std::time::Duration;

#[tokio::test]
async fn a_row_is_handed_out_once() {
    let f = Fixture::new().await;
    let sent = f.enqueue(10).await;
    let first = f.claim(6).await;
    let second = f.claim(6).await;
    assert!(first.full && !second.full);
    assert_eq!([ids(&first.jobs), ids(&second.jobs)].concat(), sent);
    assert!(f.claim(6).await.jobs.is_empty());
    assert_eq!(f.counts().await, "leased 10");
}

#[tokio::test]
async fn a_late_commit_is_found() {
    let f = Fixture::new().await;
    let mut session = f.session().await;
    let mut tx = session.begin().await.unwrap();
    let late = f.bugle.enqueue_raw("q", "k", raw("1")).on(&mut *tx).await.unwrap();
    // Two committed after it, and the cursor passes them while the first is still open.
    let sent = f.enqueue(2).await;
    assert_eq!(ids(&f.claim(10).await.jobs), sent);
    let after = f.enqueue(2).await;
    assert_eq!(ids(&f.claim(1).await.jobs), after[..1], "an open transaction blocks nobody");
    tx.commit().await.unwrap();
    assert_eq!(ids(&f.claim(10).await.jobs), [late, after[1]]);
    assert_eq!(f.counts().await, "leased 5");
}

#[tokio::test]
async fn a_late_commit_of_many_is_found_in_parts() {
    let f = Fixture::new().await;
    let mut session = f.session().await;
    let mut tx = session.begin().await.unwrap();
    let late = f.bugle.enqueue_many_raw("q", "k", vec![raw("1"); 7]).on(&mut *tx).await.unwrap();
    f.enqueue(1).await;
    assert_eq!(f.claim(10).await.jobs.len(), 1);
    tx.commit().await.unwrap();
    let mut found = Vec::new();
    for most in [3, 3, 3] {
        found.extend(ids(&f.claim(most).await.jobs));
    }
    assert_eq!(found, late);
}

#[tokio::test]
async fn a_rolled_back_transaction_leaves_nothing_behind() {
    let f = Fixture::new().await;
    let mut session = f.session().await;
    let mut tx = session.begin().await.unwrap();
    f.bugle.enqueue_raw("q", "k", raw("1")).on(&mut *tx).await.unwrap();
    let number: i64 =
        sqlx::query_scalar("SELECT pg_current_xact_id()::text::bigint").fetch_one(&mut *tx).await.unwrap();
    // Other tests have open transactions as well: only this one's number counts.
    let waited_for = format!(
        "SELECT EXISTS (SELECT FROM bugle.newest_cursor c, unnest(c.pend) AS p WHERE p.x = {number})"
    );
    f.enqueue(1).await;
    assert_eq!(f.claim(10).await.jobs.len(), 1);
    assert!(f.one::<bool>(&waited_for).await, "the cursor remembers whom it passed");
    tx.rollback().await.unwrap();
    f.enqueue(1).await;
    assert_eq!(f.claim(10).await.jobs.len(), 1);
    assert!(!f.one::<bool>(&waited_for).await, "and forgets those who leave nothing");
}

#[tokio::test]
async fn a_claim_refuses_to_work_where_it_would_be_wrong() {
    let f = Fixture::new().await;
    let mut session = f.session().await;
    let claim = f.db.sql("SELECT bugle.look('{1}', '{1}', '{w}', '{1}', '{1 minute}', '{f}', '{-infinity}', '{-infinity}')").unwrap();
    let mut tx = session.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    let error = sqlx::raw_sql(claim).execute(&mut *tx).await.unwrap_err().to_string();
    assert!(error.contains("repeatable read isolation"), "{error}");
    tx.rollback().await.unwrap();

    let mut tx = session.begin().await.unwrap();
    f.bugle.enqueue_raw("q", "k", raw("1")).on(&mut *tx).await.unwrap();
    let claim = f.db.sql("SELECT bugle.look('{1}', '{1}', '{w}', '{1}', '{1 minute}', '{f}', '{-infinity}', '{-infinity}')").unwrap();
    let error = sqlx::raw_sql(claim).execute(&mut *tx).await.unwrap_err().to_string();
    assert!(error.contains("already written"), "{error}");
}

#[tokio::test]
async fn an_aborted_claim_claimed_nothing() {
    let f = Fixture::new().await;
    let sent = f.enqueue(3).await;
    let mut session = f.session().await;
    let mut tx = session.begin().await.unwrap();
    let claim = f.db.sql("SELECT bugle.look('{1}', '{1}', '{w}', '{10}', '{1 minute}', '{f}', '{-infinity}', '{-infinity}')").unwrap();
    sqlx::raw_sql(claim).execute(&mut *tx).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(ids(&f.claim(10).await.jobs), sent);
}

#[tokio::test]
async fn the_jobs_of_an_ended_lease_are_handed_out_again_with_one_attempt_more() {
    let f = Fixture::new().await;
    let sent = f.enqueue(4).await;
    let first = f.claim_and_let_expire(10).await;
    let acked = f.queue.ack(&receipts(&first.jobs[..1]), &[]).await.unwrap();
    assert_eq!(acked, sent[..1], "late, but nobody else has it: accepted");
    let look = f.claim(10).await;
    assert!(look.jobs.is_empty(), "this look takes them back, the next hands them out");
    assert_eq!(look.look_again_in, Some(Duration::ZERO), "and says so");
    let again = f.claim(10).await;
    assert_eq!(ids(&again.jobs), sent[1..]);
    assert!(again.jobs.iter().all(|j| j.attempt == 2));
    assert!(again.jobs.iter().zip(&first.jobs[1..]).all(|(new, old)| new.receipt.row() > old.receipt.row()));
    assert_eq!(f.counts().await, "leased 3, done 1");
}

#[tokio::test]
async fn a_job_that_outlives_its_last_lease_is_dead() {
    let f = Fixture::new().await;
    f.bugle.enqueue_raw("q", "k", raw("1")).max_attempts(2).send().await.unwrap();
    for _ in 0..2 {
        assert_eq!(f.claim_and_let_expire(10).await.jobs.len(), 1);
        assert_eq!(f.queue.sweep().await.unwrap(), 1);
    }
    assert!(f.claim(10).await.jobs.is_empty());
    assert_eq!(f.counts().await, "dead 1");
    let failures: i64 = f.one("SELECT count(*) FROM bugle.failure WHERE code = 'lease_expired'").await;
    assert_eq!(failures, 2);
}

#[tokio::test]
async fn a_renewed_lease_does_not_end() {
    let f = Fixture::new().await;
    f.enqueue(1).await;
    let look = f.queue.claim("w", 1, LEASE).await.unwrap();
    let held = f.queue.renew("w", &[look.token]).await.unwrap();
    assert_eq!(held.len(), 1);
    assert!(held[0].1 > look.jobs[0].lease_until);
    assert!(f.queue.renew("somebody else", &[look.token]).await.unwrap().is_empty());
    f.expire(look.token).await;
    assert!(f.queue.renew("w", &[look.token]).await.unwrap().is_empty(), "what has ended cannot be renewed");
}

/// A worker ends one claim while it renews all of them; whoever ends locks in another order than whoever renews.
#[tokio::test]
async fn a_renewal_does_not_wait_for_a_lease_that_somebody_is_ending() {
    let f = Fixture::new().await;
    f.enqueue(2).await;
    let (ending, other) = (f.claim(1).await, f.claim(1).await);
    let mut session = f.session().await;
    let end = format!("BEGIN; DELETE FROM bugle.lease WHERE token = {}", ending.token);
    sqlx::raw_sql(f.db.sql(&end).unwrap()).execute(&mut session).await.unwrap();
    let before =
        f.one::<DateTime<Utc>>(&format!("SELECT until FROM bugle.lease WHERE token = {}", other.token)).await;
    let held = f.queue.renew("w", &[ending.token, other.token]).await.unwrap(); // or it would never come back
    let until = |token: i64| held.iter().find(|(held, _)| *held == token).map(|(_, until)| *until);
    assert!(until(ending.token).is_some(), "whether it is lost is not known yet");
    assert!(until(other.token).unwrap() > before);
    sqlx::raw_sql("COMMIT").execute(&mut session).await.unwrap();
    let held = f.queue.renew("w", &[ending.token, other.token]).await.unwrap();
    assert_eq!(held.len(), 1, "{held:?}");
}

#[tokio::test]
async fn an_ack_in_an_open_transaction_stops_nobody() {
    let f = Fixture::new().await;
    let sent = f.enqueue(2).await;
    let first = f.claim(10).await;
    // Somebody acks the first job in a transaction of their own and takes their time.
    let mut session = f.session().await;
    let mut tx = session.begin().await.unwrap();
    let delete = f.db.sql("DELETE FROM bugle.job WHERE id = $1").unwrap();
    sqlx::query(delete).bind(sent[0].0).execute(&mut *tx).await.unwrap();
    f.expire(first.token).await;
    let look = async {
        assert_eq!(f.queue.sweep().await.unwrap(), 1, "only the job that nobody is settling");
        f.claim(10).await
    };
    let look =
        tokio::time::timeout(Duration::from_secs(10), look).await.expect("neither sweep nor claim waits");
    assert_eq!(ids(&look.jobs), sent[1..]);
    tx.rollback().await.unwrap();
    f.expire(first.token).await;
    assert_eq!(f.queue.sweep().await.unwrap(), 1, "the other one comes back when that transaction has ended");
    assert_eq!(ids(&f.claim(10).await.jobs), sent[..1]);
}

#[tokio::test]
async fn two_claims_at_once_share_the_work() {
    let f = Fixture::new().await;
    let sent = f.enqueue(1000).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let queue = f.queue.clone();
        tasks.spawn(async move {
            let mut mine = Vec::new();
            loop {
                let look = queue.claim("w", 7, LEASE).await.unwrap();
                if look.jobs.is_empty() {
                    return mine;
                }
                mine.extend(look.jobs.iter().map(|j| j.id));
            }
        });
    }
    let mut all: Vec<_> = tasks.join_all().await.concat();
    all.sort();
    assert_eq!(all, sent);
}

#[tokio::test]
async fn jobs_of_another_cluster_are_refused_until_rebased() {
    let f = Fixture::new().await;
    let sent = f.enqueue(3).await;
    let held = f.claim(1).await;
    // A restore brings cursors that are ahead of the new cluster's transaction numbers.
    f.execute(
        "UPDATE bugle.cursor SET px[3] = 9000000000000000;
         UPDATE bugle.meta SET system_identifier = 1;",
    )
    .await;
    let error = f.queue.claim("w", 1, LEASE).await.unwrap_err();
    assert!(
        matches!(&error, Error::Refused { hint: Some(hint), .. } if hint.contains("rebase()")),
        "{error}"
    );
    let error = f.db.bugle().await.err().unwrap().to_string();
    assert!(error.contains("another database cluster"), "{error}");

    assert_eq!(f.one::<i64>("SELECT bugle.rebase()").await, 3);
    assert!(f.queue.ack(&receipts(&held.jobs), &[]).await.unwrap().is_empty(), "old leases are gone");
    f.db.bugle().await.unwrap();
    assert_eq!(ids(&f.claim(10).await.jobs), sent);
    assert_eq!(f.counts().await, "leased 3");
}

#[tokio::test]
async fn bad_claims_are_refused() {
    let f = Fixture::new().await;
    for (most, lease) in [(0, LEASE), (1001, LEASE), (1, Duration::ZERO), (1, Duration::from_hours(25))] {
        let error = f.queue.claim("w", most, lease).await.unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
    }
}

#[tokio::test]
async fn what_a_stranger_holds_is_not_looked_for_at_every_instant() {
    let f = Fixture::new().await;
    f.enqueue(1).await;
    let held = f.claim(1).await;
    f.expire(held.token).await;
    // Not with a short delay: on a slow machine it would be over before the job is written, and the job ready at once.
    f.bugle.enqueue_raw("q", "k", raw("1")).delay(Duration::from_hours(1)).send().await.unwrap();
    f.execute("UPDATE bugle.due SET due_at = clock_timestamp()").await;
    // Somebody's open transaction has locked the due job and the ended lease.
    let mut session = f.session().await;
    let mut tx = session.begin().await.unwrap();
    let both = "SELECT (SELECT 1 FROM bugle.due FOR UPDATE), (SELECT 1 FROM bugle.lease FOR UPDATE)";
    sqlx::query(f.db.sql(both).unwrap()).execute(&mut *tx).await.unwrap();
    let look = f.claim(10).await;
    assert!(look.jobs.is_empty());
    let wait = look.look_again_in.expect("there is something to wait for");
    assert!(wait >= Duration::from_millis(90), "a worker would spin: {wait:?}");
    tx.rollback().await.unwrap();
    assert_eq!(f.claim(10).await.look_again_in, Some(Duration::ZERO), "free again: moved, and look at once");
    assert_eq!(f.claim(10).await.jobs.len(), 2);
}
