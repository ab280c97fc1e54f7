//! What a look for ends relies on: the ends since the look before, however that looked and whatever was trimmed meanwhile.
use crate::fixture::{Fixture, receipts};
use bugle::JobId;
use bugle::jobs::{Claimed, Failure};
use sqlx::Connection as _;

/// What a look leaves for the next: its snapshot.
async fn seen(f: &Fixture) -> String {
    f.one("SELECT seen FROM bugle.look_ends('{1}', '{NULL}', '{}', '{}') WHERE id IS NULL").await
}

/// The ends that a look tells of a job that was open in `seen`.
async fn since(f: &Fixture, seen: &str, id: JobId) -> Vec<String> {
    let sql = format!(
        "SELECT array(SELECT state FROM bugle.look_ends('{{1}}', ARRAY['{seen}'], '{{{id}}}', '{{}}') WHERE id IS NOT NULL)"
    );
    f.one(&sql).await
}

async fn end(f: &Fixture) {
    let look = f.claim(1).await;
    f.queue.ack(&receipts(&look.jobs), &[look.token]).await.unwrap();
}

async fn die(f: &Fixture) -> JobId {
    let look = f.claim(1).await;
    let fail = |job: &Claimed| Failure {
        receipt: job.receipt,
        code: "io".into(),
        message: "no route".into(),
        retry_in: None,
    };
    let failures: Vec<_> = look.jobs.iter().map(fail).collect();
    f.queue.fail(&failures, &[look.token]).await.unwrap();
    look.jobs[0].id
}

/// Passes, each eleven minutes after the other, until all is gone: transactions of other tests that are open meanwhile count as well.
async fn until_trimmed(f: &Fixture, minutes: u32) {
    for pass in 0_u32.. {
        let minutes = minutes + 11 * pass;
        f.execute(&format!("SELECT bugle.trim_ended(now() + interval '{minutes} minutes')")).await;
        if f.one::<i64>("SELECT count(*) FROM bugle.ended").await == 0 {
            return;
        }
        assert!(pass < 10_000, "it is never trimmed");
    }
}

#[tokio::test]
async fn an_end_is_new_to_the_look_before_it_and_to_no_later_one() {
    let f = Fixture::new().await;
    let ids = f.enqueue(2).await;
    let before = seen(&f).await;
    assert!(since(&f, &before, ids[0]).await.is_empty());
    end(&f).await;
    assert_eq!(since(&f, &before, ids[0]).await, ["done"]);
    assert!(since(&f, &before, ids[1]).await.is_empty(), "the other one is open");
    let after = seen(&f).await;
    assert!(since(&f, &after, ids[0]).await.is_empty(), "a look reads what is new and nothing else");
}

#[tokio::test]
async fn an_old_open_transaction_hides_nothing_and_is_found_when_it_commits() {
    let f = Fixture::new().await;
    let ids = f.enqueue(3).await;
    let held = f.claim(1).await;
    let mut session = f.session().await;
    let mut tx = session.begin().await.unwrap();
    let r = held.jobs[0].receipt;
    let ack = format!("SELECT bugle.ack_in(1, 2::smallint, {}, {}, {})", r.row(), r.id(), r.token());
    sqlx::raw_sql(f.db.sql(&ack).unwrap()).execute(&mut *tx).await.unwrap();
    let first = seen(&f).await;
    end(&f).await;
    let second = seen(&f).await;
    assert!(since(&f, &second, ids[1]).await.is_empty(), "what was seen is not read again because of it");
    assert!(since(&f, &second, ids[0]).await.is_empty());
    tx.commit().await.unwrap();
    assert_eq!(since(&f, &first, ids[0]).await, ["done"]);
    assert_eq!(since(&f, &second, ids[0]).await, ["done"]);
}

#[tokio::test]
async fn a_death_is_told_although_somebody_was_quick_to_try_the_job_again() {
    let f = Fixture::new().await;
    f.enqueue(1).await;
    let before = seen(&f).await;
    let id = die(&f).await;
    f.bugle.retry_job(id).await.unwrap().unwrap();
    assert_eq!(since(&f, &before, id).await, ["dead"]);
    end(&f).await;
    assert!(since(&f, &before, id).await.iter().all(|state| state == "done"), "the last end counts");
}

#[tokio::test]
async fn ends_are_kept_ten_minutes_and_who_looks_later_searches_by_id() {
    let f = Fixture::new().await;
    let ids = f.enqueue(2).await;
    let before = seen(&f).await;
    end(&f).await;
    let trim = async |minutes: u32| {
        f.one::<i64>(&format!("SELECT bugle.trim_ended(now() + interval '{minutes} minutes')")).await
    };
    assert_eq!(trim(9).await, 0);
    assert_eq!(trim(11).await, 0, "the first pass only makes the mark");
    assert_eq!(trim(20).await, 0, "which is younger than ten minutes");
    assert_eq!(since(&f, &before, ids[0]).await, ["done"], "from what is kept");
    until_trimmed(&f, 22).await;
    assert_eq!(since(&f, &before, ids[0]).await, ["done"], "by its id");
    assert!(since(&f, &before, ids[1]).await.is_empty());
}

#[tokio::test]
async fn an_end_that_commits_late_is_not_trimmed_before_its_ten_minutes() {
    let f = Fixture::new().await;
    let id = f.enqueue(1).await[0];
    let held = f.claim(1).await;
    let mut session = f.session().await;
    let mut tx = session.begin().await.unwrap();
    let r = held.jobs[0].receipt;
    let ack = format!("SELECT bugle.ack_in(1, 2::smallint, {}, {}, {})", r.row(), r.id(), r.token());
    sqlx::raw_sql(f.db.sql(&ack).unwrap()).execute(&mut *tx).await.unwrap();
    f.enqueue(1).await; // a later transaction, which ends first
    let before = seen(&f).await;
    f.execute("SELECT bugle.trim_ended(now() + interval '11 minutes')").await;
    tx.commit().await.unwrap();
    f.execute("SELECT bugle.trim_ended(now() + interval '22 minutes')").await;
    assert_eq!(f.one::<i64>("SELECT count(*) FROM bugle.ended").await, 1, "it was open at the mark");
    assert_eq!(since(&f, &before, id).await, ["done"]);
    until_trimmed(&f, 33).await;
}

#[tokio::test]
async fn a_server_that_has_forgotten_transactions_is_searched_by_id() {
    let f = Fixture::new().await;
    let id = f.enqueue(1).await[0];
    end(&f).await;
    let ahead = "9000000000000:9000000000000:";
    assert_eq!(since(&f, ahead, id).await, ["done"], "a snapshot from a future that did not happen here");
}

#[tokio::test]
async fn a_rebase_forgets_the_ends_of_another_cluster() {
    let f = Fixture::new().await;
    let id = f.enqueue(1).await[0];
    end(&f).await;
    f.execute("UPDATE bugle.ended SET x = 9000000000000; UPDATE bugle.meta SET ended_mark = 9000000000000")
        .await;
    f.execute("SELECT bugle.rebase()").await;
    assert_eq!(f.one::<i64>("SELECT count(*) FROM bugle.ended").await, 0);
    let before = seen(&f).await;
    assert!(since(&f, &before, id).await.is_empty(), "and nothing is lost since");
    let ended: bool = f.bugle.handle(id).wait::<()>().await.is_ok();
    assert!(ended);
}
