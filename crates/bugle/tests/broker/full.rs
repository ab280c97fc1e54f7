//! A queue that was told how many messages it may hold.
use crate::fixture::{Place, any, message, payloads};
use bugle::broker::operate::QueueOptions;
use bugle::broker::{Fault, Pushed, Transacted, Transaction, Verdict};
use bugle::{Error, Outcome};
use futures_util::future::join_all;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A queue `q` that may hold so many.
async fn capped(messages_max: i32) -> Place {
    let place = Place::new().await;
    let options = QueueOptions { messages_max: Some(messages_max), ..QueueOptions::default() };
    place.broker.configure("q", &options).await.unwrap();
    place
}

async fn push(place: &Place, payloads: &[i32]) -> Vec<Result<Pushed, Error>> {
    place.broker.push(payloads.iter().map(|n| message("q", "a", *n)).collect()).await.unwrap()
}

fn is_full(answer: &Result<Pushed, Error>) -> bool {
    let Err(error) = answer else { return false };
    assert_eq!(error.outcome(), Outcome::Refused);
    assert!(error.to_string().contains("queue \"q\" is full"), "{error}");
    matches!(error, Error::QueueFull { queue, .. } if queue == "q")
}

#[tokio::test]
async fn a_full_queue_refuses_what_it_has_no_room_for_until_its_groups_are_done() {
    let place = capped(3).await;
    let answers = push(&place, &[1, 2, 3, 4, 5]).await;
    assert_eq!(answers.iter().map(is_full).collect::<Vec<_>>(), [false, false, false, true, true]);
    assert!(is_full(&push(&place, &[6]).await[0]), "nobody has done anything");
    // One by one, from the first number that is ever given out.
    let one_by_one = capped(2).await;
    for n in 0..4 {
        assert_eq!(is_full(&push(&one_by_one, &[n]).await[0]), n >= 2, "{n}");
    }
    let popped = place.pop(2).await;
    assert!(is_full(&push(&place, &[6]).await[0]), "what is leased is not done");
    place.settle(&popped, Verdict::Ack).await;
    let answers = push(&place, &[6, 7, 8]).await;
    assert_eq!(answers.iter().map(is_full).collect::<Vec<_>>(), [false, false, true]);
    // A group that has done nothing: the queue is as full as for the one that is furthest behind.
    let late = place.broker.pop(&any(9).group("late").unwrap()).await.unwrap().unwrap();
    assert_eq!(payloads(&late.messages), [1, 2, 3, 6, 7], "nothing is lost");
    let popped = place.pop(9).await;
    assert_eq!(payloads(&popped.messages), [3, 6, 7]);
    place.settle(&popped, Verdict::Ack).await;
    assert!(is_full(&push(&place, &[8]).await[0]));
    place.settle(&late, Verdict::Ack).await;
    assert!(push(&place, &[8]).await[0].is_ok());
}

#[tokio::test]
async fn a_full_queue_fails_its_own_messages_alone() {
    let place = capped(1).await;
    push(&place, &[1]).await;
    let mixed =
        vec![message("q", "a", 2), message("other", "a", 3), message("q", "b", 4), message("more", "a", 5)];
    let answers = place.broker.push(mixed).await.unwrap();
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false, true]);
    assert!(is_full(&answers[0]) && is_full(&answers[2]));
    // The same for callers whose messages are written together.
    let queue = |n: i32| if n % 2 == 0 { "q" } else { "other" };
    let calls = (0..20).map(|n| place.broker.push(vec![message(queue(n), "a", n)]));
    for (n, answers) in (0..20).zip(join_all(calls).await) {
        assert_eq!(answers.unwrap()[0].is_ok(), n % 2 == 1, "{n}");
    }
}

#[tokio::test]
async fn a_duplicate_is_told_so_by_a_full_queue_and_takes_no_room() {
    let place = capped(2).await;
    let with_key = |n: i32, key: &str| message("q", "a", n).key(key).unwrap();
    let first = place.broker.push(vec![with_key(1, "k")]).await.unwrap().remove(0).unwrap();
    let answers =
        place.broker.push(vec![with_key(1, "k"), with_key(2, "l"), with_key(3, "m"), with_key(4, "m")]);
    let answers = answers.await.unwrap();
    let again = answers[0].as_ref().unwrap();
    assert_eq!((again.id, again.seq), (first.id, None));
    assert!(answers[1].is_ok(), "the duplicate took no room");
    assert!(is_full(&answers[2]) && is_full(&answers[3]), "nor does a second of what was refused");
    assert!(place.broker.push(vec![with_key(1, "k")]).await.unwrap()[0].is_ok());
}

#[tokio::test]
async fn a_queue_without_a_most_number_and_one_with_nought_are_never_full() {
    let place = capped(0).await;
    assert!(push(&place, &(0..50).collect::<Vec<_>>()).await.iter().all(Result::is_ok));
    assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.message_count").await, 0, "and nobody counts");
}

/// As many at once as may be: the queue may become too long by what is on its way at one moment, and by no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushers_who_meet_overshoot_by_what_is_on_its_way_and_no_more() {
    const CALLERS: usize = 16;
    let place = Arc::new(capped(50).await);
    let nodes = [place.node().await, place.node().await];
    let accepted = Arc::new(AtomicUsize::new(0));
    let callers = (0..CALLERS).map(|caller| {
        let (broker, accepted) = (nodes[caller % 2].broker(), accepted.clone());
        tokio::spawn(async move {
            for n in 0..20 {
                let message = message("q", &format!("p{}", caller % 5), n);
                if broker.push(vec![message]).await.unwrap()[0].is_ok() {
                    accepted.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let accepted = accepted.load(Ordering::Relaxed);
    assert!((50..=50 + CALLERS).contains(&accepted), "{accepted}");
    let there = place.one::<i64>("SELECT count(*) FROM bugle.message").await;
    assert_eq!(there, i64::try_from(accepted).unwrap());
    assert!(is_full(&push(&place, &[1]).await[0]));
}

/// What is known of a queue is used as long as it proves that there is room.
#[tokio::test]
async fn a_queue_with_room_is_counted_seldom() {
    let place = capped(1_000).await;
    for n in 0..20 {
        assert!(push(&place, &[n]).await[0].is_ok());
    }
    let counts = "SELECT count(*) FROM bugle.message_count";
    let counted = place.one::<i64>(counts).await;
    assert!(counted < 20, "counted {counted} times");
    // Numbers that others took count against it, until it is counted anew.
    let others = (0..1_000).map(|n| message("other", "a", n)).collect();
    place.broker.push(others).await.unwrap();
    assert!(push(&place, &[1]).await[0].is_ok());
    assert!(place.one::<i64>(counts).await > counted);
    let later = "SELECT bugle.trim_messages(now() + interval '1 minute')";
    place.execute(later).await;
    assert_eq!(place.one::<i64>(counts).await, 0, "they are trimmed");
}

#[tokio::test]
async fn a_full_queue_refuses_a_users_transaction_and_numbers_what_was_accepted() {
    let place = capped(2).await;
    place
        .execute("SELECT bugle.push('q', 'a', '1'), bugle.push('q', 'a', '2'), bugle.push('q', 'a', '3')")
        .await;
    // By what has a number there was room for each of them.
    assert_eq!(payloads(&place.pop(9).await.messages), [1, 2, 3]);
    let push = place.db.sql("SELECT bugle.push('q', 'a', '4')").unwrap();
    let refused = sqlx::raw_sql(push).execute(place.db.pool()).await.unwrap_err();
    assert!(refused.to_string().contains("queue \"q\" is full"), "{refused}");
    assert_eq!(refused.as_database_error().unwrap().code().unwrap(), "BGL06");
}

#[tokio::test]
async fn a_transaction_that_would_overfill_a_queue_does_nothing() {
    let place = capped(1).await;
    let transaction =
        Transaction { push: vec![message("q", "a", 1), message("q", "a", 2)], ..Transaction::default() };
    let Transacted::Refused { why, fault, .. } = place.broker.transact(&transaction).await.unwrap() else {
        panic!("it was done");
    };
    assert_eq!(fault, Fault::Full);
    assert!(why.contains("its queue is full"), "{why}");
    assert!(place.is_empty("g").await);
}
