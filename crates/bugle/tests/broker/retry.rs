//! Tries, delays and dead letters.
use crate::fixture::{Place, any, payloads, settlements, verdicts};
use bugle::broker::Settlement::{Acked, Dead, Retried};
use bugle::broker::{Popped, Settlement, Verdict};

async fn fail(place: &Place, popped: &Popped, error: &str) -> Vec<Settlement> {
    let verdicts: Vec<_> =
        verdicts(popped, Verdict::Fail).into_iter().map(|verdict| verdict.error(error)).collect();
    settlements(&place.broker.settle(&verdicts).await.unwrap())
}

#[tokio::test]
async fn a_message_is_dead_when_its_retries_are_used_up_with_the_text_of_its_last_error() {
    let place = Place::new().await;
    place.option("retry_limit = 1").await;
    place.push("a", [1, 2]).await;
    let popped = place.pop(1).await;
    assert_eq!(fail(&place, &popped, "first").await, [Retried]);
    let popped = place.pop(1).await;
    assert_eq!((payloads(&popped.messages), popped.messages[0].tries), (vec![1], 1));
    assert_eq!(fail(&place, &popped, "second").await, [Dead], "after two attempts");
    let popped = place.pop(1).await;
    assert_eq!((payloads(&popped.messages), popped.messages[0].tries), (vec![2], 0), "the next begins anew");
    let dead = "SELECT error || ' ' || tries || ' ' || payload FROM bugle.dead_message";
    assert_eq!(place.one::<String>(dead).await, "second 2 1");
}

#[tokio::test]
async fn a_batch_that_fails_is_one_try() {
    let place = Place::new().await;
    place.push("a", [1, 2, 3]).await;
    for tries in 0..3 {
        let popped = place.pop(9).await;
        assert_eq!((popped.messages.len(), popped.messages[0].tries), (3, tries));
        assert_eq!(fail(&place, &popped, "no").await, [Retried; 3]);
    }
    let popped = place.pop(9).await;
    assert_eq!(fail(&place, &popped, "no").await, [Dead; 3], "the default is three retries");
    assert!(place.is_empty("__QUEUE_MODE__").await);
    assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.dead_message").await, 3);
}

#[tokio::test]
async fn progress_begins_the_count_anew() {
    let place = Place::new().await;
    place.push("a", [1, 2]).await;
    let popped = place.pop(2).await;
    fail(&place, &popped, "no").await;
    let popped = place.pop(2).await;
    assert_eq!(popped.messages[0].tries, 1);
    place.broker.settle(&verdicts(&popped, Verdict::Ack)[..1]).await.unwrap();
    place.broker.settle(&verdicts(&popped, Verdict::Retry)[1..]).await.unwrap();
    let popped = place.pop(2).await;
    assert_eq!((payloads(&popped.messages), popped.messages[0].tries), (vec![2], 1));
}

#[tokio::test]
async fn a_retry_comes_after_the_queues_delay() {
    let place = Place::new().await;
    place.option("retry_delay_ms = 60000").await;
    place.push("a", [1]).await;
    let popped = place.pop(1).await;
    assert_eq!(place.settle(&popped, Verdict::Retry).await, [Retried]);
    assert!(place.is_empty("__QUEUE_MODE__").await);
    let wait = "SELECT round(extract(epoch FROM until - clock_timestamp()))::int FROM bugle.group_cursor ORDER BY ver DESC LIMIT 1";
    assert_eq!(place.one::<i32>(wait).await, 60);
}

#[tokio::test]
async fn a_message_can_be_declared_dead_at_once_and_the_others_go_on() {
    let place = Place::new().await;
    place.push("a", [1, 2, 3]).await;
    let popped = place.pop(9).await;
    let mut mixed = verdicts(&popped, Verdict::Ack);
    mixed[1] = verdicts(&popped, Verdict::Dead).remove(1).error("poison");
    let settled = place.broker.settle(&mixed).await.unwrap();
    assert_eq!(settlements(&settled), [Acked, Dead, Acked]);
    assert!(settled.iter().all(|settled| settled.freed));
    assert_eq!(place.one::<String>("SELECT payload FROM bugle.dead_message").await, "2");
}

#[tokio::test]
async fn a_message_is_dead_for_one_group_alone() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let popped = place.pop(1).await;
    place.settle(&popped, Verdict::Dead).await;
    let other = place.broker.pop(&any(1).group("other").unwrap()).await.unwrap().unwrap();
    assert_eq!(payloads(&other.messages), [1]);
}
