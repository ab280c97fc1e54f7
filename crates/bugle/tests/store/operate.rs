//! What people do to single jobs.
use crate::fixture::{Fixture, ids, raw, receipts};
use bugle::jobs::State;
use bugle::jobs::inspect::Filter;
use bugle::name::NamespaceName;
use bugle::{Bugle, JobId};
use sqlx::Connection as _;
use std::time::Duration;

#[tokio::test]
async fn a_cancelled_job_never_starts() {
    let f = Fixture::new().await;
    let sent = f.enqueue(2).await;
    let later = f.bugle.enqueue_raw("q", "k", raw("1")).delay(Duration::from_mins(1)).send().await.unwrap();
    assert_eq!(f.bugle.cancel_job(sent[0]).await.unwrap(), Some(State::Ready));
    assert_eq!(f.bugle.cancel_job(later).await.unwrap(), Some(State::Scheduled));
    assert_eq!(f.bugle.cancel_job(later).await.unwrap(), None, "it has ended");
    assert_eq!(ids(&f.claim(10).await.jobs), sent[1..]);
    assert_eq!(f.counts().await, "leased 1, cancelled 2");
}

#[tokio::test]
async fn a_cancel_waits_for_a_claim_under_way_and_then_knows() {
    let f = Fixture::new().await;
    let sent = f.enqueue(1).await;
    let mut session = f.session().await;
    let mut tx = session.begin().await.unwrap();
    sqlx::raw_sql(f.db.sql("SELECT bugle.look('{1}', '{1}', '{w}', '{10}', '{1 minute}', '{f}', '{-infinity}', '{-infinity}')").unwrap())
        .execute(&mut *tx)
        .await
        .unwrap();
    let bugle = f.bugle.clone();
    let id = sent[0];
    let cancel = tokio::spawn(async move { bugle.cancel_job(id).await.unwrap() });
    f.waits_for_the_queue().await;
    tx.commit().await.unwrap();
    assert_eq!(cancel.await.unwrap(), Some(State::Leased), "it had started before it was cancelled");
    assert_eq!(f.counts().await, "cancelled 1");
}

#[tokio::test]
async fn a_scheduled_or_dead_job_can_be_tried_now() {
    let f = Fixture::new().await;
    let later = f.bugle.enqueue_raw("q", "k", raw("1")).delay(Duration::from_mins(1)).send().await.unwrap();
    let dead = f.bugle.enqueue_raw("q", "k", raw("1")).max_attempts(1).send().await.unwrap();
    f.claim_and_let_expire(10).await;
    f.queue.sweep().await.unwrap();
    assert_eq!(f.counts().await, "scheduled 1, dead 1");
    assert_eq!(f.bugle.retry_job(later).await.unwrap(), Some(State::Scheduled));
    assert_eq!(f.bugle.retry_job(dead).await.unwrap(), Some(State::Dead));
    assert_eq!(f.bugle.retry_job(dead).await.unwrap(), None);
    let look = f.claim(10).await;
    assert_eq!(ids(&look.jobs), [later, dead]);
    assert_eq!(look.jobs[1].attempt, 1, "a dead job begins anew");
    assert_eq!(f.counts().await, "leased 2");
}

#[tokio::test]
async fn jobs_can_be_listed_and_shown() {
    let f = Fixture::new().await;
    let sent = f.enqueue(3).await;
    f.bugle.enqueue_raw("other", "x", raw("{\"a\":1}")).key("my-key").send().await.unwrap();
    let look = f.claim(1).await;
    let all = f.bugle.list_jobs(&Filter::default(), 10).await.unwrap();
    assert_eq!(all.len(), 4);
    let ready = Filter { queue: Some("q".into()), state: Some(State::Ready), kind: Some("k".into()) };
    let listed = f.bugle.list_jobs(&ready, 10).await.unwrap();
    assert_eq!(listed.iter().map(|r| r.id).collect::<Vec<_>>(), [sent[2], sent[1]], "newest first");
    let held = f.bugle.show_job(look.jobs[0].id).await.unwrap().unwrap();
    assert_eq!((held.row.state.as_str(), held.worker.as_deref()), ("leased", Some("w")));
    assert!(held.lease_until.is_some());
    assert!(f.bugle.show_job(JobId(999_999)).await.unwrap().is_none());
    let queues = f.bugle.list_queues().await.unwrap();
    assert_eq!(
        queues.iter().map(|q| (q.name.as_str(), q.ready, q.leased)).collect::<Vec<_>>(),
        [("other", 1, 0), ("q", 2, 1)]
    );
}

#[tokio::test]
async fn an_ended_job_shows_who_ended_it_and_what_came_of_it() {
    let f = Fixture::new().await;
    let id = f.enqueue(1).await[0];
    let look = f.claim(1).await;
    f.queue.ack(&receipts(&look.jobs), &[look.token]).await.unwrap();
    f.execute("UPDATE bugle.history SET worker = 'ann', result = '{\"sent\": 1}'").await;
    let shown = f.bugle.show_job(id).await.unwrap().unwrap();
    assert_eq!((shown.ended_by.as_deref(), shown.worker.as_deref()), (Some("ann"), None));
    assert_eq!(shown.result, Some(serde_json::json!({"sent": 1})));
}

#[tokio::test]
async fn a_list_has_every_state_and_the_newest_of_many() {
    let f = Fixture::new().await;
    let list = async |state, most| {
        let filter = Filter { state, ..Filter::default() };
        let rows = f.bugle.list_jobs(&filter, most).await.unwrap();
        rows.into_iter().map(|row| (row.id, row.state)).collect::<Vec<_>>()
    };
    let mut tx = f.db.pool().begin().await.unwrap();
    let late = f.bugle.enqueue_raw("q", "k", raw("1")).on(&mut *tx).await.unwrap();
    let sent = f.enqueue(6).await;
    let look = f.claim(4).await;
    tx.commit().await.unwrap();
    f.queue.ack(&receipts(&look.jobs[..1]), &[]).await.unwrap();
    f.bugle.cancel_job(sent[4]).await.unwrap();
    let later = f.bugle.enqueue_raw("q", "k", raw("1")).delay(Duration::from_mins(1)).send().await.unwrap();
    let all = [
        (later, "scheduled"),
        (sent[5], "ready"),
        (sent[4], "cancelled"),
        (sent[3], "leased"),
        (sent[2], "leased"),
        (sent[1], "leased"),
        (sent[0], "done"),
        (late, "ready"),
    ];
    let named = |rows: &[(JobId, &str)]| {
        rows.iter().map(|(id, state)| (*id, (*state).to_owned())).collect::<Vec<_>>()
    };
    let mut all = all.to_vec();
    all.sort_by_key(|(id, _)| std::cmp::Reverse(*id));
    assert_eq!(list(None, 100).await, named(&all));
    assert_eq!(list(None, 3).await, named(&all[..3]));
    for state in State::ALL {
        let wanted: Vec<_> = all.iter().filter(|(_, is)| *is == state.as_str()).copied().collect();
        assert_eq!(list(Some(state), 100).await, named(&wanted));
    }
    // So many ids were used since that none of them is among the newest.
    f.execute("SELECT setval('bugle.job_id', 10000000)").await;
    assert_eq!(list(None, 3).await, named(&all[..3]));
}

#[tokio::test]
async fn one_namespace_does_not_reach_into_another() {
    let f = Fixture::new().await;
    let name = NamespaceName::parse("other").unwrap();
    let options =
        bugle::Options { schema: f.db.schema_name().unwrap(), namespace: name.clone(), ..Default::default() };
    let error = Bugle::new(f.db.pool().clone(), options.clone()).await.err().unwrap().to_string();
    assert!(error.contains("namespace \"other\" does not exist"), "{error}");
    assert!(f.bugle.create_namespace(&name).await.unwrap());
    assert!(!f.bugle.create_namespace(&name).await.unwrap(), "it was there already");
    let other = Bugle::new(f.db.pool().clone(), options).await.unwrap();
    let ready = f.bugle.enqueue_raw("q", "k", raw("1")).key("same").send().await.unwrap();
    let later = f.bugle.enqueue_raw("q", "k", raw("1")).delay(Duration::from_mins(1)).send().await.unwrap();
    let dead = f.bugle.enqueue_raw("dying", "k", raw("1")).max_attempts(1).send().await.unwrap();
    let dying = f.bugle.queue("dying").await.unwrap();
    let look = dying.claim("w", 1, Duration::from_secs(30)).await.unwrap();
    f.expire(look.token).await;
    dying.sweep().await.unwrap();

    assert!(other.list_queues().await.unwrap().is_empty());
    assert!(other.list_jobs(&Filter::default(), 10).await.unwrap().is_empty());
    for id in [ready, later, dead] {
        assert!(other.show_job(id).await.unwrap().is_none());
        assert_eq!(other.cancel_job(id).await.unwrap(), None);
        assert_eq!(other.retry_job(id).await.unwrap(), None);
    }
    let its_own = other.queue("q").await.unwrap();
    assert!(its_own.claim("w", 10, Duration::from_secs(30)).await.unwrap().jobs.is_empty());
    assert_ne!(
        other.enqueue_raw("q", "k", raw("1")).key("same").send().await.unwrap(),
        ready,
        "its own keys as well"
    );
    assert_eq!(f.counts().await, "scheduled 1, ready 2, dead 1");
}

#[tokio::test]
async fn a_cancel_with_an_old_snapshot_is_refused() {
    let f = Fixture::new().await;
    let sent = f.enqueue(1).await;
    let mut session = f.session().await;
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let begin = sqlx::AssertSqlSafe(format!("BEGIN ISOLATION LEVEL {level}"));
        let mut tx = session.begin_with(begin).await.unwrap();
        let cancel = sqlx::query(f.db.sql("SELECT bugle.cancel($1)").unwrap()).bind(sent[0].0);
        let error = cancel.execute(&mut *tx).await.unwrap_err().to_string();
        assert!(error.contains("cancel runs in"), "{error}");
    }
    assert_eq!(f.counts().await, "ready 1");
}

#[tokio::test]
async fn a_cancel_does_not_wait_for_a_stranger_who_ends_the_job() {
    let f = Fixture::new().await;
    let sent = f.enqueue(2).await;
    let mut session = f.session().await;
    let mut tx = session.begin().await.unwrap();
    let delete = f.db.sql("DELETE FROM bugle.job WHERE id = $1").unwrap();
    sqlx::query(delete).bind(sent[0].0).execute(&mut *tx).await.unwrap();
    let both = async {
        let error = f.bugle.cancel_job(sent[0]).await.unwrap_err();
        assert!(error.to_string().contains("is being ended by another transaction"), "{error}");
        f.claim(10).await
    };
    let look =
        tokio::time::timeout(Duration::from_secs(10), both).await.expect("neither cancel nor claim waits");
    assert_eq!(look.jobs.len(), 2, "the row that is being ended is still there for others");
    tx.rollback().await.unwrap();
    assert_eq!(f.bugle.cancel_job(sent[0]).await.unwrap(), Some(State::Leased));
}
