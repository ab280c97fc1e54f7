//! Messages in users' own transactions.
use crate::fixture::{HOUR, Place, SOON, any, payloads};
use bugle::broker::Verdict;
use sqlx::Connection as _;

async fn run(session: &mut sqlx::PgConnection, place: &Place, sql: &str) {
    sqlx::raw_sql(place.db.sql(sql).unwrap()).execute(session).await.unwrap();
}

#[tokio::test]
async fn a_message_in_a_users_transaction_exists_when_that_commits_and_only_then() {
    let place = Place::new().await;
    let mut user = place.began("SELECT bugle.push('q', 'a', '1'), bugle.push('q', 'a', '2', 'k')").await;
    assert!(place.broker.pop(&any(9)).await.unwrap().is_none());
    run(&mut user, &place, "COMMIT").await;
    let popped = place.pop(9).await;
    assert_eq!(payloads(&popped.messages), [1, 2]);
    assert_eq!(popped.messages[1].key.as_deref(), Some("k"));
    run(&mut user, &place, "BEGIN; SELECT bugle.push('q', 'b', '3'); ROLLBACK").await;
    assert!(place.is_empty("__QUEUE_MODE__").await);
}

#[tokio::test]
async fn a_savepoint_that_is_rolled_back_takes_its_messages_along() {
    let place = Place::new().await;
    let mut user = place
        .began(
            "SELECT bugle.push('q', 'a', '1'); SAVEPOINT s; SELECT bugle.push('q', 'a', '2'); ROLLBACK TO s;
            SAVEPOINT s; SELECT bugle.push('q', 'a', '3'); RELEASE s; COMMIT",
        )
        .await;
    assert_eq!(payloads(&place.pop(9).await.messages), [1, 3]);
    run(&mut user, &place, "SELECT 1").await;
}

#[tokio::test]
async fn an_open_transaction_of_a_user_blocks_nobody() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let mut user = place.began("SELECT bugle.push('q', 'a', '9'), bugle.push('q', 'new', '8')").await;
    let others = async {
        place.push("a", [2]).await;
        place.push("new", [3]).await;
        let first = place.pop(9).await;
        assert_eq!(payloads(&first.messages), [1, 2]);
        place.settle(&first, Verdict::Ack).await;
        assert_eq!(payloads(&place.pop(9).await.messages), [3]);
        place.push("a", [4]).await;
        let second = place.pop(9).await;
        place.settle(&second, Verdict::Ack).await;
        assert_eq!(payloads(&second.messages), [4]);
    };
    tokio::time::timeout(SOON, others).await.expect("they waited for the user");
    run(&mut user, &place, "COMMIT").await;
    let late = place.pop(9).await;
    assert_eq!(payloads(&late.messages), [9], "behind what was committed before it");
}

#[tokio::test]
async fn each_message_gets_one_number_whoever_looks() {
    let place = Place::new().await;
    place.push("a", [0]).await;
    let producers = (0..4).map(|producer| {
        let (pool, sql) = (
            place.db.pool().clone(),
            place.db.sql("SELECT bugle.push('q', 'a', to_jsonb($1::int))").unwrap().0,
        );
        tokio::spawn(async move {
            for n in 0..50 {
                let sql = sqlx::AssertSqlSafe(sql.as_str());
                sqlx::query(sql).bind(producer * 1_000 + n).execute(&pool).await.unwrap();
            }
        })
    });
    let producers: Vec<_> = producers.collect();
    let numberers: Vec<_> = (0..3)
        .map(|_| {
            let (pool, sql) =
                (place.db.pool().clone(), place.db.sql("SELECT bugle.number_tail()").unwrap().0);
            tokio::spawn(async move {
                for _ in 0..100 {
                    sqlx::query(sqlx::AssertSqlSafe(sql.as_str())).execute(&pool).await.unwrap();
                }
            })
        })
        .collect();
    for task in producers.into_iter().chain(numberers) {
        task.await.unwrap();
    }
    place.execute("SELECT bugle.number_tail()").await; // those may have ended before the last producer
    let popped = place.pop(1_000).await;
    let got = payloads(&popped.messages);
    assert_eq!(got.len(), 201);
    for producer in 0..4 {
        let own: Vec<i32> = got.iter().copied().filter(|n| n / 1_000 == producer && *n > 0).collect();
        assert!(own.is_sorted(), "{own:?}");
    }
    let numbers: Vec<i64> = popped.messages.iter().map(|message| message.n).collect();
    assert_eq!(numbers, (1..=201).collect::<Vec<_>>(), "dense");
}

#[tokio::test]
async fn a_message_with_a_key_that_is_taken_is_dropped() {
    let place = Place::new().await;
    place.execute("SELECT bugle.push('q', 'a', '1', 'k'); SELECT bugle.push('q', 'a', '2', 'k'); SELECT bugle.push('q', 'b', '3', 'k')").await;
    let mut got = payloads(&place.pop(9).await.messages);
    got.extend(payloads(&place.pop(9).await.messages));
    got.sort_unstable();
    assert_eq!(got, [1, 3]);
}

#[tokio::test]
async fn a_commit_of_a_user_wakes_who_waits() {
    let place = Place::new().await;
    let bugle = place.node().await;
    let broker = bugle.broker();
    let waiter = tokio::spawn(async move { broker.pop_within(&any(1), HOUR).await });
    place.asleep(&bugle, 1).await;
    let mut user = place.began("SELECT bugle.push('q', 'a', '1')").await;
    place.quiet(&bugle).await;
    assert!(!waiter.is_finished());
    run(&mut user, &place, "COMMIT").await;
    let popped = tokio::time::timeout(SOON, waiter).await.expect("not woken").unwrap().unwrap().unwrap();
    assert_eq!(payloads(&popped.messages), [1]);
    user.close().await.unwrap();
}

#[tokio::test]
async fn a_repeatable_read_transaction_may_push() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let mut user = place.began("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1").await;
    place.push("a", [2]).await;
    run(&mut user, &place, "SELECT bugle.push('q', 'a', '3'); COMMIT").await;
    place.execute("SELECT bugle.number_tail()").await;
    assert_eq!(payloads(&place.pop(9).await.messages), [1, 2, 3]);
}
