//! Rule 1: who rings, and when. Plain sessions, one statement at a time.
use crate::fixture::{LEASE, LEVELS, Place, until};
use bugle_wake::Number;
use sqlx::Connection as _;
use std::time::Duration;

/// What makes a job claimable, or claimable sooner.
const PRODUCERS: [&str; 12] = [
    "enqueue",
    "enqueue plain",
    "enqueue later",
    "enqueue many",
    "enqueue many plain",
    "enqueue fused",
    "copy",
    "release",
    "snooze",
    "fail",
    "retry",
    "retry a dead one",
];

/// Whatever it takes beforehand; returns the statement itself.
async fn prepare(p: &Place, what: &str) -> String {
    let receipt = async || {
        p.push().await;
        let job = p.claim().await;
        let (queue, x, id, token) = (p.number, job.receipt.row(), job.id, job.receipt.token());
        format!(
            "{queue}, '{{2}}'::smallint[], '{{{x}}}'::bigint[], '{{{id}}}'::bigint[], '{{{token}}}'::bigint[], '{{{token}}}'::bigint[]"
        )
    };
    match what {
        "enqueue" => "SELECT bugle.enqueue('q', 'k')".to_owned(),
        "enqueue plain" => {
            let given = ["1", "'q'", "2", "5", "'k'", "'1'", "'default'"];
            filled(include_str!("../../src/jobs/sql/enqueue_plain.sql"), &given)
        }
        "enqueue many plain" => {
            let given = ["1", "'q'", "2", "5", "'k'", "'{1,2}'", "'default'"];
            filled(include_str!("../../src/jobs/sql/enqueue_many_plain.sql"), &given)
        }
        "enqueue fused" => {
            let given = ["1", "'q'", "'{k,k}'", "'{1,2}'", "'{2,2}'", "'{5,5}'"];
            filled(include_str!("../../src/jobs/sql/enqueue_fused.sql"), &given)
        }
        "copy" => format!("SELECT bugle.copied({}, 1)", p.number),
        "snooze" => format!("SELECT bugle.snooze({}, ARRAY['1 hour'::interval])", receipt().await),
        "enqueue later" => "SELECT bugle.enqueue('q', 'k', delay => '1 hour')".to_owned(),
        "enqueue many" => {
            "SELECT bugle.enqueue_many('q', 'k', array_fill('1'::jsonb, ARRAY[100]))".to_owned()
        }
        "release" => format!("SELECT bugle.release({})", receipt().await),
        "fail" => {
            format!(
                "SELECT bugle.fail({}, ARRAY['1 hour'::interval], ARRAY['c'], ARRAY['m'])",
                receipt().await
            )
        }
        "retry" => {
            let id: i64 = p.one("SELECT bugle.enqueue('q', 'k', delay => '1 hour')").await;
            format!("SELECT bugle.retry({id})")
        }
        "retry a dead one" => {
            let fail = format!(
                "SELECT (bugle.fail({}, ARRAY[NULL::interval], ARRAY['c'], ARRAY['m'])).id",
                receipt().await
            );
            format!("SELECT bugle.retry({})", p.one::<i64>(&fail).await)
        }
        "ack" => format!("SELECT bugle.ack({})", receipt().await),
        "cancel" => format!("SELECT bugle.cancel({})", p.push().await),
        other => panic!("{other}?"),
    }
}

/// A statement with what stands for its parameters.
fn filled(statement: &str, given: &[&str]) -> String {
    let fill = |text: String, (n, value): (usize, &&str)| text.replace(&format!("${}", n + 1), value);
    given.iter().enumerate().fold(statement.to_owned(), fill)
}

/// In a transaction of its own.
async fn produce(p: &Place, level: &str, statement: &str) {
    let mut session = p.transaction(level).await;
    p.run(&mut session, statement).await;
    p.run(&mut session, "COMMIT").await;
}

/// PostgreSQL counts, and only for sessions that are told to.
#[tokio::test]
async fn rings_sent_and_saved_are_counted_without_a_write() {
    let p = Place::new().await;
    for what in PRODUCERS {
        produce(&p, LEVELS[0], &prepare(&p, what).await).await;
    }
    assert_eq!(p.bugle.producer_rings().await.unwrap(), None, "nobody is made to count");
    let enqueue = "SELECT bugle.enqueue('q', 'k')";
    let many = "SELECT bugle.enqueue_many('q', 'k', array_fill('1'::jsonb, ARRAY[100]))";
    let mut session = p.session().await;
    p.run(&mut session, "SET track_functions = 'pl'").await;
    for statement in [enqueue, many, enqueue] {
        p.run(&mut session, statement).await;
    }
    let mut sleeper = p.sleeper().await;
    assert_eq!(sleeper.sit(false).await, "bell");
    for statement in [enqueue, many] {
        p.run(&mut session, statement).await;
    }
    session.close().await.unwrap(); // and tells what it has counted
    let mut rings = None;
    until("it is told", async || {
        rings = p.bugle.producer_rings().await.unwrap();
        rings.as_ref().is_some_and(|rings| rings.checks >= 5) // they are listed a moment before they are counted
    })
    .await;
    let rings = rings.unwrap();
    assert_eq!((rings.checks, rings.sent, rings.saved), (5, 2, 3));
}

#[tokio::test]
async fn nobody_rings_while_nobody_sleeps() {
    let p = Place::new().await;
    let mut ear = p.ear().await;
    for level in LEVELS {
        for what in PRODUCERS {
            let statement = prepare(&p, what).await;
            produce(&p, level, &statement).await;
            assert_eq!(ear.heard().await, [""; 0], "{what}, {level}");
        }
    }
}

#[tokio::test]
async fn whatever_makes_a_job_claimable_rings_once_for_a_sleeper() {
    let p = Place::new().await;
    let (mut ear, mut sleeper) = (p.ear().await, p.sleeper().await);
    let ring = format!("{}:{}", p.bucket, p.number);
    for level in LEVELS {
        for what in PRODUCERS {
            let statement = prepare(&p, what).await;
            assert_eq!(sleeper.sit(false).await, "bell");
            produce(&p, level, &statement).await;
            assert_eq!(ear.heard().await, [ring.as_str()], "{what}, {level}");
            sleeper.leave().await;
        }
    }
}

#[tokio::test]
async fn what_makes_nothing_claimable_does_not_ring() {
    let p = Place::new().await;
    let (mut ear, mut sleeper) = (p.ear().await, p.sleeper().await);
    p.execute("SELECT bugle.enqueue('q', 'k', key => 'taken')").await;
    p.push().await;
    let (ack, cancel) = (prepare(&p, "ack").await, prepare(&p, "cancel").await);
    assert_eq!(sleeper.sit(false).await, "bell");
    produce(&p, LEVELS[0], &ack).await;
    produce(&p, LEVELS[0], &cancel).await;
    p.execute("SELECT bugle.enqueue('q', 'k', key => 'taken')").await;
    p.execute("SELECT bugle.enqueue_many('q', 'k', '{}')").await;
    assert_eq!(p.queue.claim("w", 9, LEASE).await.unwrap().jobs.len(), 2);
    p.execute("SELECT bugle.retry(0)").await;
    assert_eq!(ear.heard().await, [""; 0]);
}

#[tokio::test]
async fn a_transaction_that_enqueues_often_rings_once() {
    let p = Place::new().await;
    let (mut ear, mut sleeper) = (p.ear().await, p.sleeper().await);
    assert_eq!(sleeper.sit(false).await, "bell");
    let mut producer = p.transaction(LEVELS[0]).await;
    for _ in 0..20 {
        p.run(&mut producer, "SELECT bugle.enqueue('q', 'k')").await;
    }
    assert_eq!(ear.heard().await, [""; 0], "nothing before the commit");
    p.run(&mut producer, "COMMIT").await;
    assert_eq!(ear.heard().await.len(), 1);
}

#[tokio::test]
async fn a_producer_whose_snapshot_is_older_than_the_sleeper_still_rings() {
    for level in LEVELS {
        let p = Place::new().await;
        let (mut ear, mut sleeper) = (p.ear().await, p.sleeper().await);
        let mut producer = p.transaction(level).await;
        assert_eq!(sleeper.sit(false).await, "bell");
        p.run(&mut producer, "SELECT bugle.enqueue('q', 'k'); COMMIT").await;
        assert_eq!(ear.heard().await.len(), 1, "{level}");
        assert_eq!(p.one::<i64>("SELECT count(*) FROM bugle.job").await, 1, "what is heard is visible");
    }
}

#[tokio::test]
async fn the_check_is_made_anew_in_every_statement() {
    for level in LEVELS {
        let p = Place::new().await;
        let (mut ear, mut sleeper) = (p.ear().await, p.sleeper().await);
        let mut producer = p.transaction(level).await;
        p.run(&mut producer, "SAVEPOINT s; SELECT bugle.enqueue('q', 'k'); ROLLBACK TO s").await;
        assert_eq!(sleeper.sit(false).await, "bell", "the savepoint gave the lock back");
        p.run(&mut producer, "SELECT bugle.enqueue('q', 'k'); COMMIT").await;
        assert_eq!(ear.heard().await.len(), 1, "the first check said that nobody sleeps; {level}");
    }
}

#[tokio::test]
async fn a_savepoint_or_a_transaction_rolled_back_rings_nobody() {
    for level in LEVELS {
        let p = Place::new().await;
        let (mut ear, mut sleeper) = (p.ear().await, p.sleeper().await);
        assert_eq!(sleeper.sit(false).await, "bell");
        let mut producer = p.transaction(level).await;
        p.run(&mut producer, "SAVEPOINT s; SELECT bugle.enqueue('q', 'k'); ROLLBACK TO s; COMMIT").await;
        let mut producer = p.transaction(level).await;
        p.run(&mut producer, "SELECT bugle.enqueue('q', 'k'); ROLLBACK").await;
        assert_eq!(ear.heard().await, [""; 0], "{level}");
    }
}

#[tokio::test]
async fn an_enqueue_by_a_trigger_rings() {
    let p = Place::new().await;
    let (mut ear, mut sleeper) = (p.ear().await, p.sleeper().await);
    p.execute(
        "CREATE TABLE bugle.orders (id int);
         CREATE FUNCTION bugle.on_order() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN PERFORM bugle.enqueue('q', 'k', to_jsonb(NEW)); RETURN NULL; END $$;
         CREATE TRIGGER tell AFTER INSERT ON bugle.orders FOR EACH ROW EXECUTE FUNCTION bugle.on_order()",
    )
    .await;
    assert_eq!(sleeper.sit(false).await, "bell");
    for level in LEVELS {
        produce(&p, level, "INSERT INTO bugle.orders SELECT generate_series(1, 3)").await;
        assert_eq!(ear.heard().await.len(), 1, "{level}");
    }
    assert_eq!(p.one::<i64>("SELECT count(*) FROM bugle.job").await, 6);
}

#[tokio::test]
async fn two_schemas_of_a_database_do_not_ring_for_each_other() {
    let (one, other) = (Place::new().await, Place::new().await);
    assert_eq!(one.number, other.number, "the same number, so only the schema tells them apart");
    let (mut ear, mut others_ear) = (one.ear().await, other.ear().await);
    let mut sleeper = one.sleeper().await;
    assert_eq!(sleeper.sit(false).await, "bell");
    other.push().await;
    assert_eq!((ear.heard().await.len(), others_ear.heard().await.len()), (0, 0));
    assert_eq!(other.sleeper().await.sit(false).await, "bell", "and neither takes the other's seat");
    one.push().await;
    assert_eq!((ear.heard().await.len(), others_ear.heard().await.len()), (1, 0));
}

#[tokio::test]
async fn the_bucket_of_a_queue_is_the_same_in_sql_and_in_rust() {
    let p = Place::new().await;
    let sql = p.sql("SELECT n, bugle.bucket_of(n) FROM generate_series(-1000, 1000) AS n WHERE n <> 0");
    let buckets: Vec<(i32, i32)> = sqlx::query_as(sql).fetch_all(p.db.pool()).await.unwrap();
    for (number, bucket) in buckets {
        assert_eq!(Number(number).bucket().to_string(), bucket.to_string(), "queue {number}");
        let range = if number > 0 {
            1..=bugle_wake::BUCKETS
        } else {
            bugle_wake::BUCKETS + 1..=2 * bugle_wake::BUCKETS
        };
        assert!(range.contains(&bucket), "queue {number}");
    }
}

#[tokio::test]
async fn ringing_by_hand_reaches_sleepers_and_refuses_a_queue_that_does_not_exist() {
    let p = Place::new().await;
    let mut ear = p.ear().await;
    p.execute("SELECT bugle.ring_queue('q')").await;
    let ends = format!("{}:-{}", p.bucket + bugle_wake::BUCKETS, p.number);
    assert_eq!(ear.heard().await, [format!("{}:{}", p.bucket, p.number), ends]);
    let wrong = sqlx::query(p.sql("SELECT bugle.ring_queue('nothing')")).execute(p.db.pool()).await;
    assert!(wrong.unwrap_err().to_string().contains("does not exist"));
}

#[tokio::test]
async fn a_job_that_is_due_later_is_announced_when_it_is_written() {
    let p = Place::new().await;
    let (mut ear, mut sleeper) = (p.ear().await, p.sleeper().await);
    assert_eq!(sleeper.sit(false).await, "bell");
    let later = p.bugle.enqueue_raw("q", "k", serde_json::from_str("1").unwrap());
    later.delay(Duration::from_hours(1)).send().await.unwrap();
    assert_eq!(ear.heard().await.len(), 1, "sleepers must arm their timers");
}
