//! A partition that is let go of and holds nothing more: nobody is woken for it, and nobody misses what is pushed meanwhile.
use crate::fixture::{HOUR, Place, SOON, any, payloads, until};
use bugle::Bugle;
use bugle::broker::{Popped, Verdict};
use sqlx::PgConnection;
use tokio::task::JoinHandle;

/// Somebody who waits for any partition of the queue, and sleeps.
async fn sleeper(place: &Place) -> (Bugle, JoinHandle<Popped>) {
    let bugle = place.node().await;
    let broker = bugle.broker();
    let waiter = tokio::spawn(async move { broker.pop_within(&any(9), HOUR).await.unwrap().unwrap() });
    place.asleep(&bugle, 1).await;
    (bugle, waiter)
}

async fn answer(waiter: JoinHandle<Popped>) -> Vec<i32> {
    payloads(&tokio::time::timeout(SOON, waiter).await.expect("not served").unwrap().messages)
}

#[tokio::test]
async fn an_ack_that_leaves_nothing_wakes_nobody() {
    let place = Place::new().await;
    place.push("a", [1, 2]).await;
    let popped = place.pop(2).await;
    let (bugle, waiter) = sleeper(&place).await;
    let before = place.looks().await;
    let settled = place.broker.settle(&crate::fixture::verdicts(&popped, Verdict::Ack)).await.unwrap();
    assert!(settled.iter().all(|settled| settled.freed));
    place.quiet(&bugle).await;
    assert_eq!(place.looks().await, before, "there is nothing to look for");
    place.push("a", [3]).await;
    assert_eq!(answer(waiter).await, [3], "a push wakes as ever");
}

#[tokio::test]
async fn an_ack_that_leaves_something_wakes_who_sleeps() {
    let place = Place::new().await;
    place.push("a", [1, 2]).await;
    let popped = place.pop(1).await;
    let (_bugle, waiter) = sleeper(&place).await;
    place.settle(&popped, Verdict::Ack).await;
    assert_eq!(answer(waiter).await, [2]);
}

#[tokio::test]
async fn what_is_given_back_wakes_who_sleeps() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let popped = place.pop(1).await;
    let (_bugle, waiter) = sleeper(&place).await;
    place.broker.release(&popped).await.unwrap();
    assert_eq!(answer(waiter).await, [1]);
}

/// An ack of all that was popped, in an open transaction.
async fn acking(place: &Place, popped: &Popped) -> PgConnection {
    let message = &popped.messages[0];
    let (part, token, seq) = (message.partition.0, popped.token, message.seq);
    place
        .began(&format!(
            "SELECT bugle.settle_messages(1, '{{{part}}}', '{{__QUEUE_MODE__}}', '{{{token}}}', '{{{seq}}}', '{{NULL}}', '{{ack}}', '{{NULL}}')"
        ))
        .await
}

fn spawn_push(place: &Place, payload: i32) -> JoinHandle<bool> {
    let (broker, message) = (place.broker.clone(), crate::fixture::message("q", "a", payload));
    tokio::spawn(async move { broker.push(vec![message]).await.unwrap()[0].is_ok() })
}

async fn commit(mut session: PgConnection) {
    sqlx::raw_sql("COMMIT").execute(&mut session).await.unwrap();
}

#[tokio::test]
async fn a_push_that_meets_an_ack_that_found_nothing_left_comes_after_it() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let popped = place.pop(1).await;
    let (_bugle, waiter) = sleeper(&place).await;
    let ack = acking(&place, &popped).await;
    let push = spawn_push(&place, 2);
    place.waits_for_a_partition().await;
    commit(ack).await;
    assert!(push.await.unwrap());
    assert_eq!(answer(waiter).await, [2]);
}

/// Broken on purpose: without the lock the push is looked at while the lease is still there, and nobody looks again before its end.
#[tokio::test]
async fn an_ack_that_only_believes_that_nothing_is_left_strands_a_message() {
    let place = Place::new().await;
    let lock = "NOT pg_try_advisory_xact_lock_shared(bugle.partition_class(), p_part[i])";
    place.break_function("are_dry", 1, lock, "false").await;
    place.push("a", [1]).await;
    let popped = place.pop(1).await;
    let (bugle, waiter) = sleeper(&place).await;
    let ack = acking(&place, &popped).await;
    let before = place.looks().await;
    assert!(spawn_push(&place, 2).await.unwrap());
    until("it has looked", async || place.looks().await > before).await;
    place.asleep(&bugle, 1).await;
    commit(ack).await;
    place.quiet(&bugle).await;
    assert!(!waiter.is_finished(), "the lock is not needed?");
    waiter.abort();
}

/// A seek to the end of a partition lets go of it, and is news of it alone.
#[tokio::test]
async fn a_seek_in_one_partition_wakes_nobody_unless_something_was_pushed_meanwhile() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    place.pop(1).await;
    let (bugle, waiter) = sleeper(&place).await;
    let before = place.looks().await;
    let seek = async || place.broker.seek_partition("q", "__QUEUE_MODE__", "a").await.unwrap();
    assert!(seek().await.is_some());
    place.quiet(&bugle).await;
    assert_eq!(place.looks().await, before, "there is nothing to look for");
    assert_eq!(
        place.one::<i64>("SELECT count(*) FROM bugle.news WHERE parts IS NULL").await,
        0,
        "nobody searches"
    );
    // A seek that has not committed: a push comes after it.
    let open = place.began("SELECT bugle.seek_partition(1, '__QUEUE_MODE__', 'a')").await;
    let push = spawn_push(&place, 2);
    place.waits_for_a_partition().await;
    commit(open).await;
    assert!(push.await.unwrap());
    assert_eq!(answer(waiter).await, [2]);
}

#[tokio::test]
async fn a_redrive_is_news_for_its_group_alone() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    for group in ["g", "h"] {
        let popped = place.broker.pop(&any(1).group(group).unwrap()).await.unwrap().unwrap();
        place.settle(&popped, Verdict::Dead).await;
    }
    let news = "SELECT count(DISTINCT grp) FILTER (WHERE grp IS NOT NULL) || ' ' || count(*) FILTER (WHERE grp IS NULL) FROM bugle.news";
    place.execute("DELETE FROM bugle.news").await;
    assert_eq!(place.broker.redrive_dead("q", Some("g"), None, None).await.unwrap(), 1);
    assert_eq!(place.one::<String>(news).await, "1 0");
    let popped = place.broker.pop(&any(1).group("g").unwrap()).await.unwrap().unwrap();
    assert_eq!(payloads(&popped.messages), [1]);
    assert!(place.is_empty("h").await);
}
