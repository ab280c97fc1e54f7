//! Single enqueues of many callers at once: written together, each answered after its own commit.

use crate::fixture::{Fixture, raw};
use bugle::jobs::Backoff;
use bugle::{Error, JobId, Outcome};
use bugle_testkit::proxy::{Fault, Proxy};
use sqlx::{Connection as _, PgConnection};
use std::time::Duration;
use tokio::task::JoinHandle;

type Answer = JoinHandle<Result<JobId, Error>>;

/// Nobody can write while this is held: calls pile up.
struct Dam(PgConnection);

impl Dam {
    async fn build(f: &Fixture) -> Self {
        let mut session = f.session().await;
        let lock = "BEGIN; LOCK TABLE bugle.tally IN ACCESS EXCLUSIVE MODE";
        sqlx::raw_sql(f.db.sql(lock).unwrap()).execute(&mut session).await.unwrap();
        Self(session)
    }

    async fn open(self) {
        self.0.close().await.unwrap();
    }
}

/// A session waits for a lock with an enqueue of this schema.
async fn until_waiting(f: &Fixture) {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%bugle.enqueue%'";
    while f.one::<i64>(waiting).await == 0 {
        tokio::task::yield_now().await;
    }
}

fn send(f: &Fixture, payload: &str) -> Answer {
    let (bugle, payload) = (f.bugle.clone(), raw(payload));
    tokio::spawn(async move { bugle.enqueue_raw("q", "k", payload).send().await })
}

/// A call that keeps the queue's writer busy behind a dam.
async fn busy(f: &Fixture) -> Vec<Answer> {
    let answers = vec![send(f, "\"first\"")];
    until_waiting(f).await;
    answers
}

/// Runs what has been spawned as far as it goes without the database.
async fn let_them_come() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_comes_while_the_writer_is_busy_is_written_together() {
    let f = Fixture::new().await;
    let dam = Dam::build(&f).await;
    let mut answers = busy(&f).await;
    answers.extend((0..50).map(|n| send(&f, &n.to_string())));
    let_them_come().await;
    dam.open().await;
    let mut ids = Vec::new();
    for answer in answers {
        ids.push(answer.await.unwrap().unwrap());
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 51, "everybody has a job of their own");
    assert_eq!(f.counts().await, "ready 51");
    assert_eq!(f.one::<i64>("SELECT count(DISTINCT x) FROM bugle.job").await, 2, "fifty in one transaction");
}

#[tokio::test]
async fn everybody_gets_what_they_asked_for() {
    let f = Fixture::new().await;
    let dam = Dam::build(&f).await;
    let mut answers = busy(&f).await;
    for n in 0..20 {
        let bugle = f.bugle.clone();
        answers.push(tokio::spawn(async move {
            let queue = if n % 2 == 0 { "even" } else { "odd" };
            let job = bugle.enqueue_raw(queue, &format!("kind {n}"), raw(&n.to_string())).max_attempts(n + 1);
            if n < 10 { job } else { job.delay(Duration::from_hours(1)) }.send().await
        }));
    }
    let_them_come().await;
    dam.open().await;
    for (n, answer) in answers.into_iter().skip(1).enumerate() {
        let job = f.bugle.show_job(answer.await.unwrap().unwrap()).await.unwrap().unwrap();
        assert_eq!(job.row.kind, format!("kind {n}"));
        assert_eq!(job.payload.to_string(), n.to_string());
        assert_eq!(job.row.queue, if n % 2 == 0 { "even" } else { "odd" });
        assert_eq!(usize::try_from(job.row.max_attempts).unwrap(), n + 1);
        let state = if n < 10 { "ready" } else { "scheduled" };
        assert_eq!(job.row.state, state);
    }
    assert_eq!(f.counts().await, "scheduled 10, ready 11");
}

#[tokio::test]
async fn a_retry_rule_of_its_own_is_kept_in_company() {
    let f = Fixture::new().await;
    let dam = Dam::build(&f).await;
    let answers = busy(&f).await;
    let patient: Vec<_> = (0..2)
        .map(|n| {
            let bugle = f.bugle.clone();
            let rule = Backoff::table([Duration::ZERO, Duration::from_secs(77)]);
            tokio::spawn(
                async move { bugle.enqueue_raw("q", "k", raw(&n.to_string())).retry(&rule).send().await },
            )
        })
        .collect();
    let_them_come().await;
    dam.open().await;
    for answer in answers.into_iter().chain(patient) {
        answer.await.unwrap().unwrap();
    }
    let kept = "SELECT count(*) FROM bugle.job WHERE extra->'retry'->'table_s'->>1 = '77.0'";
    assert_eq!(f.one::<i64>(kept).await, 2);
}

#[tokio::test]
async fn one_that_is_refused_does_not_spoil_the_others() {
    let f = Fixture::new().await;
    let dam = Dam::build(&f).await;
    let mut answers = busy(&f).await;
    answers.extend((0..5).map(|n| send(&f, &n.to_string())));
    let refused = send(&f, "\"\\ud800\""); // half a character: JSON by the letter, and not for PostgreSQL
    answers.extend((0..5).map(|n| send(&f, &n.to_string())));
    let_them_come().await;
    dam.open().await;
    for answer in answers {
        answer.await.unwrap().unwrap();
    }
    let error = refused.await.unwrap().unwrap_err();
    assert_eq!(error.outcome(), Outcome::Refused, "{error}");
    assert_eq!(f.counts().await, "ready 11");
}

#[tokio::test]
async fn whoever_gives_up_takes_nobody_along() {
    let f = Fixture::new().await;
    let dam = Dam::build(&f).await;
    let mut answers = busy(&f).await;
    let gone: Vec<_> = (0..3).map(|n| send(&f, &n.to_string())).collect();
    answers.extend((0..3).map(|n| send(&f, &n.to_string())));
    let_them_come().await;
    for answer in answers.drain(..1).chain(gone) {
        answer.abort(); // among them one whose statement is under way
    }
    dam.open().await;
    for answer in answers {
        answer.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_cut_connection_leaves_all_of_them_in_doubt() {
    let f = Fixture::new().await;
    let options = f.db.connect_options();
    let server = tokio::net::lookup_host((options.get_host(), options.get_port())).await.unwrap().next();
    let proxy = Proxy::start(server.unwrap()).await.unwrap();
    let pool = sqlx::PgPool::connect_with(proxy.rewrite(options)).await.unwrap();
    let schema = f.db.schema_name().unwrap();
    let bugle = bugle::Bugle::new(pool, bugle::Options { schema, ..Default::default() }).await.unwrap();
    let cut = proxy.set(Fault::cut_after_answer("of several callers").next(1));
    let f = Fixture { bugle, ..f };

    let dam = Dam::build(&f).await;
    let answers = busy(&f).await;
    let fused: Vec<_> = (0..5).map(|n| send(&f, &n.to_string())).collect();
    let_them_come().await;
    dam.open().await;
    for answer in answers {
        answer.await.unwrap().unwrap();
    }
    for answer in fused {
        let error = answer.await.unwrap().unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    }
    assert_eq!(cut.hits(), 1);
    assert_eq!(f.counts().await, "ready 6", "it did happen");
    send(&f, "1").await.unwrap().unwrap();
}
