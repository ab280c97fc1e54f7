//! Writing jobs.
use crate::fixture::{Fixture, ids, raw};
use bugle::jobs::Backoff;
use bugle::limits::{
    ATTEMPTS_MAX, DURATION_MAX, ENQUEUE_JOBS_MAX, KEY_BYTES_MAX, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX,
};
use bugle::{Error, Job, Outcome, Priority};
use chrono::{TimeDelta, Utc};
use sqlx::Connection as _;
use std::time::Duration;

#[derive(serde::Serialize, serde::Deserialize)]
struct Mail {
    to: String,
}

impl Job for Mail {
    const KIND: &'static str = "mail";
    const QUEUE: &'static str = "q";
    const MAX_ATTEMPTS: u16 = 7;
}

#[tokio::test]
async fn a_typed_job_arrives_as_it_was_sent() {
    let f = Fixture::new().await;
    let id = f.bugle.enqueue(&Mail { to: "ann".into() }).send().await.unwrap();
    let look = f.claim(10).await;
    assert_eq!(ids(&look.jobs), [id]);
    let job = &look.jobs[0];
    assert_eq!(job.kind, "mail");
    assert_eq!((job.attempt, job.max_attempts), (1, 7));
    assert_eq!(serde_json::from_str::<Mail>(job.payload.get()).unwrap().to, "ann");
}

#[tokio::test]
async fn many_jobs_keep_their_order() {
    let f = Fixture::new().await;
    let sent = f.enqueue(500).await;
    let look = f.claim(1000).await;
    assert_eq!(ids(&look.jobs), sent);
    assert_eq!(look.jobs[499].payload.get().replace(' ', ""), r#"{"n":499}"#);
    assert!(f.bugle.enqueue_many_raw("q", "k", vec![]).send().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_job_in_a_callers_transaction_exists_only_when_that_commits() {
    let f = Fixture::new().await;
    let mut session = f.session().await;
    let mut tx = session.begin().await.unwrap();
    f.bugle.enqueue(&Mail { to: "ann".into() }).on(&mut *tx).await.unwrap();
    assert!(f.claim(10).await.jobs.is_empty(), "not committed yet");
    tx.rollback().await.unwrap();
    assert!(f.claim(10).await.jobs.is_empty(), "rolled back");
    assert_eq!(f.counts().await, "");

    let mut tx = session.begin().await.unwrap();
    let id = f.bugle.enqueue(&Mail { to: "ann".into() }).on(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(ids(&f.claim(10).await.jobs), [id]);
}

#[tokio::test]
async fn a_trigger_may_enqueue() {
    let f = Fixture::new().await;
    f.execute(
        "CREATE TABLE bugle.user_order (id int);
         CREATE FUNCTION bugle.on_order() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN PERFORM bugle.enqueue('q', 'order', to_jsonb(NEW)); RETURN NEW; END $$;
         CREATE TRIGGER t AFTER INSERT ON bugle.user_order FOR EACH ROW EXECUTE FUNCTION bugle.on_order();
         INSERT INTO bugle.user_order VALUES (42);",
    )
    .await;
    let look = f.claim(10).await;
    assert_eq!(look.jobs[0].payload.get().replace(' ', ""), r#"{"id":42}"#);
}

#[tokio::test]
async fn a_job_for_later_is_not_handed_out_before_it_is_due() {
    // Long enough for a slow machine to look before it is over.
    let delay = Duration::from_secs(3);
    let f = Fixture::new().await;
    f.bugle.enqueue_raw("q", "k", raw("1")).delay(delay).send().await.unwrap();
    let past = Utc::now() - TimeDelta::hours(1);
    let now = f.bugle.enqueue_raw("q", "k", raw("2")).due_at(past).send().await.unwrap();
    let look = f.claim(10).await;
    assert_eq!(ids(&look.jobs), [now], "what was due in the past is ready at once");
    let wait = look.look_again_in.expect("the look says when to look again");
    assert!(wait <= delay);
    loop {
        let look = f.claim(10).await;
        if let [job] = &look.jobs[..] {
            assert!(look.claimed_at >= job.due_at, "never early by the database's clock");
            break;
        }
        assert!(look.look_again_in.is_some());
        tokio::time::sleep(look.look_again_in.unwrap_or_default()).await;
    }
    assert_eq!(f.counts().await, "leased 2");
}

#[tokio::test]
async fn same_key_same_job_until_the_window_ends() {
    let f = Fixture::new().await;
    let send = async |window: Duration| {
        f.bugle.enqueue_raw("q", "k", raw("1")).key("order-1").key_window(window).send().await.unwrap()
    };
    let first = send(Duration::from_millis(1)).await;
    // The window of a millisecond is over once the database's clock says so.
    while !f.one::<bool>("SELECT bool_and(until <= clock_timestamp()) FROM bugle.job_key").await {}
    let second = send(Duration::from_hours(1)).await;
    assert_ne!(first, second);
    assert_eq!(send(Duration::from_hours(1)).await, second);
    let look = f.claim(10).await;
    f.queue.ack(&look.jobs.iter().map(|j| j.receipt).collect::<Vec<_>>(), &[look.token]).await.unwrap();
    assert_eq!(send(Duration::from_hours(1)).await, second, "also after the job is done");
    assert_eq!(f.counts().await, "done 2");
    let other = f.bugle.enqueue_raw("other", "k", raw("1")).key("order-1").send().await.unwrap();
    assert_ne!(other, second, "another queue has its own keys");
}

#[tokio::test]
async fn fifty_enqueues_with_one_key_at_once_make_one_job() {
    let f = Fixture::new().await;
    let two = f.db.bugle().await.unwrap(); // a second node
    let calls = (0..50).map(|i| {
        let bugle = if i % 2 == 0 { f.bugle.clone() } else { two.clone() };
        tokio::spawn(async move { bugle.enqueue_raw("q", "k", raw("1")).key("one").send().await.unwrap() })
    });
    let mut answers = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        answers.push(call.await.unwrap());
    }
    assert_eq!(answers.len(), 50);
    assert!(answers.iter().all(|id| *id == answers[0]), "fifty equal answers");
    assert_eq!(f.counts().await, "ready 1");
}

#[tokio::test]
async fn a_key_taken_in_an_open_transaction_is_waited_for() {
    let f = Fixture::new().await;
    let mut session = f.session().await;
    let mut tx = session.begin().await.unwrap();
    let first = f.bugle.enqueue_raw("q", "k", raw("1")).key("one").on(&mut *tx).await.unwrap();
    let bugle = f.bugle.clone();
    let second = tokio::spawn(async move { bugle.enqueue_raw("q", "k", raw("1")).key("one").send().await });
    // The second call is in the database, waiting for the first transaction.
    while !f.one::<bool>("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%bugle.enqueue%')").await {
        tokio::task::yield_now().await;
    }
    tx.rollback().await.unwrap();
    assert_ne!(second.await.unwrap().unwrap(), first, "the first one never existed");
    assert_eq!(f.counts().await, "ready 1");
}

#[tokio::test]
async fn urgent_jobs_go_first() {
    let f = Fixture::new().await;
    for (payload, priority) in
        [("3", Priority::Low), ("2", Priority::Normal), ("1", Priority::High), ("0", Priority::Urgent)]
    {
        f.bugle.enqueue_raw("q", "k", raw(payload)).priority(priority).send().await.unwrap();
    }
    let look = f.claim(10).await;
    assert_eq!(look.jobs.iter().map(|j| j.payload.get()).collect::<Vec<_>>(), ["0", "1", "2", "3"]);
}

#[tokio::test]
async fn bad_input_is_refused_with_a_sentence_and_nothing_is_written() {
    let f = Fixture::new().await;
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    let wide = "é".repeat(NAME_BYTES_MAX / 2 + 1);
    let big = raw(&format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX)));
    let b = &f.bugle;
    let attempts = [
        ("queue name", b.enqueue_raw(&long, "k", raw("1")).send().await),
        ("queue name", b.enqueue_raw(&wide, "k", raw("1")).send().await),
        ("queue name", b.enqueue_raw("", "k", raw("1")).send().await),
        ("kind", b.enqueue_raw("q", &wide, raw("1")).send().await),
        ("kind", b.enqueue_raw("q", "a\nb", raw("1")).send().await),
        ("key", b.enqueue_raw("q", "k", raw("1")).key(&"x".repeat(KEY_BYTES_MAX + 1)).send().await),
        ("payload", b.enqueue_raw("q", "k", big).send().await),
        ("payload", b.enqueue_raw("q", "k", raw(r#""a\u0000b""#)).send().await),
        ("max_attempts", b.enqueue_raw("q", "k", raw("1")).max_attempts(0).send().await),
        ("max_attempts", b.enqueue_raw("q", "k", raw("1")).max_attempts(ATTEMPTS_MAX + 1).send().await),
        ("key_window", b.enqueue_raw("q", "k", raw("1")).key("a").key_window(Duration::ZERO).send().await),
        ("due_at", b.enqueue_raw("q", "k", raw("1")).due_at(Utc::now()).delay(Duration::ZERO).send().await),
        (
            "delay",
            b.enqueue_raw("q", "k", raw("1")).delay(DURATION_MAX + Duration::from_secs(1)).send().await,
        ),
    ];
    for (what, answer) in attempts {
        let error = answer.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Refused);
        assert!(error.to_string().contains(what), "{what}: {error}");
    }
    let many = b.enqueue_many_raw("q", "k", vec![raw("1"); ENQUEUE_JOBS_MAX + 1]).send().await;
    assert!(matches!(many, Err(Error::Invalid { what: "number of jobs", .. })), "{many:?}");
    assert_eq!(f.counts().await, "");
}

#[tokio::test]
async fn sql_refuses_the_same_input_at_the_same_limits() {
    let f = Fixture::new().await;
    let name = NAME_BYTES_MAX;
    let key = KEY_BYTES_MAX;
    // A JSON string of n letters is n + 2 bytes long.
    let letters = PAYLOAD_BYTES_MAX - 2;
    let good = [
        format!("bugle.enqueue(repeat('q', {name}), 'k', '1')"),
        format!("bugle.enqueue('q', repeat('k', {name}), '1')"),
        format!("bugle.enqueue('q', 'k', '1', key => repeat('k', {key}))"),
        format!("bugle.enqueue('q', 'k', to_jsonb(repeat('x', {letters})))"),
        format!("bugle.enqueue('q', 'k', '1', max_attempts => {ATTEMPTS_MAX})"),
        format!("bugle.enqueue_many('q', 'k', array_fill('1'::jsonb, ARRAY[{ENQUEUE_JOBS_MAX}]))"),
    ];
    for call in &good {
        f.execute(&format!("SELECT {call}")).await;
    }
    let before = f.counts().await;
    let bad = [
        format!("bugle.enqueue(repeat('q', {name} + 1), 'k', '1')"),
        "bugle.enqueue('', 'k', '1')".to_owned(),
        "bugle.enqueue(NULL, 'k', '1')".to_owned(),
        format!("bugle.enqueue('q', repeat('k', {name} + 1), '1')"),
        "bugle.enqueue('q', E'a\\nb', '1')".to_owned(),
        format!("bugle.enqueue('q', 'k', '1', key => repeat('k', {key} + 1))"),
        "bugle.enqueue('q', 'k', '1', key => '')".to_owned(),
        format!("bugle.enqueue('q', 'k', to_jsonb(repeat('x', {letters} + 1)))"),
        "bugle.enqueue('q', 'k', NULL)".to_owned(),
        r#"bugle.enqueue('q', 'k', '"\u0000"')"#.to_owned(),
        format!("bugle.enqueue('q', 'k', '1', max_attempts => {ATTEMPTS_MAX} + 1)"),
        "bugle.enqueue('q', 'k', '1', max_attempts => 0)".to_owned(),
        "bugle.enqueue('q', 'k', '1', priority => 4)".to_owned(),
        "bugle.enqueue('q', 'k', '1', priority => -1)".to_owned(),
        "bugle.enqueue('q', 'k', '1', delay => '-1 second')".to_owned(),
        "bugle.enqueue('q', 'k', '1', due_at => 'infinity')".to_owned(),
        "bugle.enqueue('q', 'k', '1', due_at => '270000-01-01')".to_owned(),
        "bugle.enqueue('q', 'k', '1', delay => '101 years')".to_owned(),
        "bugle.enqueue('q', 'k', '1', key => 'k3', key_window => '101 years')".to_owned(),
        "bugle.enqueue('q', 'k', '1', key => E'a\\nb')".to_owned(),
        "bugle.enqueue('q', 'k', '1', due_at => now(), delay => '1 second')".to_owned(),
        "bugle.enqueue('q', 'k', '1', key => 'k2', key_window => '0')".to_owned(),
        "bugle.enqueue('q', 'k', '1', namespace => 'nowhere')".to_owned(),
        format!("bugle.enqueue_many('q', 'k', array_fill('1'::jsonb, ARRAY[{ENQUEUE_JOBS_MAX} + 1]))"),
        "bugle.enqueue_many('q', 'k', ARRAY['1', NULL]::jsonb[])".to_owned(),
    ];
    for call in &bad {
        let sql = f.db.sql(&format!("SELECT {call}")).unwrap();
        let answer = sqlx::raw_sql(sql).execute(f.db.pool()).await;
        assert!(matches!(answer, Err(sqlx::Error::Database(_))), "{call} was accepted");
    }
    assert_eq!(f.counts().await, before, "nothing of it was written");
}

/// A hundred years are 36,000, 36,500 or 36,525 days, by who counts.
#[tokio::test]
async fn the_longest_delay_is_the_same_in_rust_and_in_sql() {
    let f = Fixture::new().await;
    let days = |n: u64| Duration::from_hours(24 * n);
    let job = || f.bugle.enqueue_raw("q", "k", raw("1"));
    let in_sql = async |argument: String| {
        let sql = f.db.sql(&format!("SELECT bugle.enqueue('q', 'k', '1', {argument})")).unwrap();
        sqlx::raw_sql(sql).execute(f.db.pool()).await.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(DURATION_MAX, days(36_525));
    for n in [35_999, 36_001, 36_499, 36_501, 36_525] {
        job().delay(days(n)).send().await.unwrap();
        job().key(&format!("{n}")).key_window(days(n)).send().await.unwrap();
        job().retry(&Backoff::table([days(n)])).send().await.unwrap();
        in_sql(format!("delay => '{n} days'")).await.unwrap();
        in_sql(format!("key => '{n} in SQL', key_window => '{n} days'")).await.unwrap();
    }
    in_sql("delay => '100 years'".to_owned()).await.unwrap();
    let before = f.counts().await;
    let longer = DURATION_MAX + Duration::from_micros(1);
    let faults = [
        job().delay(longer).send().await.unwrap_err().to_string(),
        in_sql("delay => '36525 days 1 microsecond'".to_owned()).await.unwrap_err(),
        in_sql("delay => '36526 days'".to_owned()).await.unwrap_err(),
        in_sql("delay => '-1 second'".to_owned()).await.unwrap_err(),
    ];
    for fault in faults {
        assert!(fault.contains("delay is ") && fault.contains("; use 0 to 100 years"), "{fault}");
    }
    job().key("a").key_window(longer).send().await.unwrap_err();
    in_sql("key => 'a', key_window => '36525 days 1 microsecond'".to_owned()).await.unwrap_err();
    job().retry(&Backoff::table([longer])).send().await.unwrap_err();
    in_sql(r#"extra => '{"retry": {"table_s": [3155760001]}}'"#.to_owned()).await.unwrap_err();
    assert_eq!(f.counts().await, before);
}

#[tokio::test]
async fn repeating_a_key_waits_for_nobody() {
    let f = Fixture::new().await;
    let enqueue = |key: &'static str| f.bugle.enqueue_raw("q", "k", raw("1")).key(key);
    let (a, b) = (enqueue("a").send().await.unwrap(), enqueue("b").send().await.unwrap());
    let (mut one, mut two) = (f.session().await, f.session().await);
    let (mut one, mut two) = (one.begin().await.unwrap(), two.begin().await.unwrap());
    // In opposite order, in two open transactions: whoever locked would deadlock here.
    let crossed = async {
        assert_eq!(enqueue("a").on(&mut *one).await.unwrap(), a);
        assert_eq!(enqueue("b").on(&mut *two).await.unwrap(), b);
        assert_eq!(enqueue("b").on(&mut *one).await.unwrap(), b);
        assert_eq!(enqueue("a").on(&mut *two).await.unwrap(), a);
    };
    tokio::time::timeout(Duration::from_secs(10), crossed).await.expect("nobody waits");
    one.commit().await.unwrap();
    two.commit().await.unwrap();
    assert_eq!(f.counts().await, "ready 2");
}
