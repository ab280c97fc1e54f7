//! What verdicts do.
use crate::fixture::{HOUR, Place, any, message, payloads, settlements, verdicts};
use bugle::broker::Settlement::{Acked, Lost, Missing, Passed, Released, Returned};
use bugle::broker::{Extended, PartitionId, Settle, Verdict};
use bugle::name::GroupName;
use futures_util::future::join_all;
use std::time::Duration;
use uuid::Uuid;

fn group() -> GroupName {
    GroupName::parse("__QUEUE_MODE__").unwrap()
}

#[tokio::test]
async fn an_ack_finishes_everything_up_to_its_message_and_the_last_one_frees_the_partition() {
    let place = Place::new().await;
    place.push("a", [1, 2, 3, 4]).await;
    let popped = place.pop(3).await;
    let acks = verdicts(&popped, Verdict::Ack);
    let second = place.broker.settle(&acks[1..2]).await.unwrap();
    assert_eq!((settlements(&second), second[0].freed), (vec![Acked], false));
    assert_eq!((second[0].queue.as_deref(), second[0].partition.as_deref()), (Some("q"), Some("a")));
    assert!(place.is_empty("__QUEUE_MODE__").await, "the lease goes on");
    let first = place.broker.settle(&acks[..1]).await.unwrap();
    assert_eq!((settlements(&first), first[0].freed), (vec![Acked], false), "it was done with the second");
    let last = place.broker.settle(&acks[2..]).await.unwrap();
    assert_eq!((settlements(&last), last[0].freed), (vec![Acked], true));
    assert_eq!(settlements(&place.broker.settle(&acks).await.unwrap()), [Acked; 3], "an ack may be repeated");
    assert_eq!(payloads(&place.pop(9).await.messages), [4]);
    assert_eq!(settlements(&place.broker.settle(&acks).await.unwrap()), [Lost; 3], "until somebody claims");
}

#[tokio::test]
async fn an_ack_never_goes_back_nor_past_its_claim() {
    let place = Place::new().await;
    place.push("a", [1, 2, 3]).await;
    let popped = place.pop(2).await;
    let (partition, token) = (popped.messages[0].partition, Some(popped.token));
    let beyond = Settle::by_seq(partition, group(), token, popped.messages[1].seq + 1, Verdict::Ack);
    let before = Settle::by_seq(partition, group(), token, 0, Verdict::Ack);
    assert_eq!(settlements(&place.broker.settle(&[beyond, before]).await.unwrap()), [Missing; 2]);
    let acks = verdicts(&popped, Verdict::Ack);
    place.broker.settle(&acks[1..]).await.unwrap();
    let fail = verdicts(&popped, Verdict::Fail).remove(0);
    assert_eq!(settlements(&place.broker.settle(&[fail]).await.unwrap()), [Passed], "done is done");
    assert_eq!(payloads(&place.pop(9).await.messages), [3]);
}

#[tokio::test]
async fn messages_are_named_by_their_keys_or_ids_and_a_token_is_not_needed() {
    let place = Place::new().await;
    let with_key = crate::fixture::message("q", "a", 1).key("t-1").unwrap();
    place.broker.push(vec![with_key]).await.unwrap();
    place.push("a", [2]).await;
    let popped = place.pop(9).await;
    let partition = popped.messages[0].partition;
    let by = |key: &str, token, verdict| Settle::by_key(partition, group(), token, key, verdict).unwrap();
    let id = popped.messages[1].id.to_string();
    let settled = place
        .broker
        .settle(&[
            by("t-1", None, Verdict::Ack),
            by("t-2", Some(popped.token), Verdict::Ack),
            by(&id, Some(popped.token), Verdict::Ack),
            by("t-1", Some(Uuid::now_v7()), Verdict::Ack),
        ])
        .await
        .unwrap();
    assert_eq!(settlements(&settled), [Acked, Missing, Acked, Lost]);
    let stranger = Settle::by_key(PartitionId(999), group(), None, "t-1", Verdict::Ack).unwrap();
    assert_eq!(settlements(&place.broker.settle(&[stranger]).await.unwrap()), [Lost]);
    let refused = Settle::by_key(partition, group(), None, "t-1\0", Verdict::Ack).unwrap_err();
    assert!(refused.to_string().contains("control character"), "not taken for another key: {refused}");
}

#[tokio::test]
async fn another_namespace_settles_nothing() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let popped = place.pop(1).await;
    let other = bugle::name::NamespaceName::parse("other").unwrap();
    place.bugle.create_namespace(&other).await.unwrap();
    let options = bugle::Options {
        schema: place.db.schema_name().unwrap(),
        namespace: other,
        ..bugle::Options::default()
    };
    let stranger = bugle::Bugle::new(place.db.pool().clone(), options).await.unwrap().broker();
    let settled = stranger.settle(&verdicts(&popped, Verdict::Ack)).await.unwrap();
    assert_eq!(settlements(&settled), [Lost]);
    assert_eq!(settled[0].queue, None);
    assert_eq!(stranger.extend(popped.token, HOUR).await.unwrap(), Extended::Lost);
    assert!(stranger.pop(&any(1)).await.unwrap().is_none());
}

#[tokio::test]
async fn a_late_ack_is_accepted_until_somebody_else_claims() {
    let place = Place::new().await;
    place.push("a", [1, 2]).await;
    let late = place.pop(1).await;
    place.expire().await;
    assert_eq!(place.settle(&late, Verdict::Ack).await, [Acked]);
    let late = place.pop(1).await;
    place.expire().await;
    place.execute("INSERT INTO bugle.news (queue) SELECT id FROM bugle.queue").await; // time was moved behind the node's back
    let again = place.pop(1).await;
    assert_eq!(payloads(&again.messages), [2], "it comes again");
    assert_eq!(again.messages[0].tries, 1, "a lease that ended was a try");
    assert_eq!(place.settle(&late, Verdict::Ack).await, [Lost], "the old token is worth nothing");
    assert_eq!(place.settle(&again, Verdict::Ack).await, [Acked]);
    assert!(place.is_empty("__QUEUE_MODE__").await);
}

#[tokio::test]
async fn what_is_given_back_comes_again_and_was_no_try() {
    let place = Place::new().await;
    place.push("a", [1, 2]).await;
    let popped = place.pop(2).await;
    place.broker.settle(&verdicts(&popped, Verdict::Ack)[..1]).await.unwrap();
    assert_eq!(place.settle(&popped, Verdict::Release).await, [Released; 2]);
    let again = place.pop(2).await;
    assert_eq!(payloads(&again.messages), [2]);
    assert_eq!(again.messages[0].tries, 0);
}

#[tokio::test]
async fn a_verdict_for_what_comes_again_is_told_so() {
    let place = Place::new().await;
    place.push("a", [1, 2, 3]).await;
    let popped = place.pop(3).await;
    let mut mixed = verdicts(&popped, Verdict::Ack);
    mixed[1] = verdicts(&popped, Verdict::Fail).remove(1);
    let settled = place.broker.settle(&mixed).await.unwrap();
    assert_eq!(settlements(&settled), [Acked, bugle::broker::Settlement::Retried, Returned]);
    assert_eq!(payloads(&place.pop(9).await.messages), [2, 3]);
}

#[tokio::test]
async fn acks_of_one_claim_that_meet_all_count() {
    let place = Place::new().await;
    place.push("a", 0..40).await;
    let popped = place.pop(40).await;
    let acks: Vec<_> = verdicts(&popped, Verdict::Ack)
        .into_iter()
        .map(|ack| {
            let broker = place.broker.clone();
            tokio::spawn(async move { broker.settle(&[ack]).await.unwrap().remove(0) })
        })
        .collect();
    let mut freed = false;
    for ack in acks {
        let settled = ack.await.unwrap();
        assert_eq!(settled.settlement, Acked);
        freed |= settled.freed; // of all that were written together with the last one
    }
    assert!(freed);
    assert!(place.is_empty("__QUEUE_MODE__").await);
}

#[tokio::test]
async fn a_lease_is_extended_with_all_its_partitions() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    place.push("b", [2]).await;
    let popped = place.broker.pop(&any(9).partitions(2).unwrap()).await.unwrap().unwrap();
    let Extended::Until(until) = place.broker.extend(popped.token, 2 * HOUR).await.unwrap() else { panic!() };
    assert!(until > popped.messages[0].until.unwrap() + HOUR);
    let shorter = place.broker.extend(popped.token, Duration::from_secs(1)).await.unwrap();
    assert_eq!(shorter, Extended::Until(until), "never earlier");
    let newest = "SELECT count(DISTINCT part) FROM bugle.group_cursor WHERE until > clock_timestamp() + interval '110 min'";
    assert_eq!(place.one::<i64>(newest).await, 2);
    assert_eq!(place.settle(&popped, Verdict::Ack).await, [Acked; 2]);
    assert_eq!(place.broker.extend(popped.token, HOUR).await.unwrap(), Extended::Lost);
    assert_eq!(place.broker.extend(Uuid::now_v7(), HOUR).await.unwrap(), Extended::Lost);
}

#[tokio::test]
async fn a_lease_whose_time_is_over_is_not_extended() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let popped = place.pop(1).await;
    place.expire().await;
    assert_eq!(place.broker.extend(popped.token, HOUR).await.unwrap(), Extended::Ended);
}

/// Claims one message in each of so many partitions.
async fn claimed(place: &Place, partitions: usize) -> Vec<Vec<Settle>> {
    let messages = (0..partitions).map(|n| message("q", &format!("p{n}"), 1)).collect();
    for pushed in place.broker.push(messages).await.unwrap() {
        pushed.unwrap();
    }
    let most = u32::try_from(partitions).unwrap();
    let popped = place.broker.pop(&any(most).partitions(most).unwrap()).await.unwrap().unwrap();
    assert_eq!(popped.messages.len(), partitions);
    verdicts(&popped, Verdict::Ack).into_iter().map(|verdict| vec![verdict]).collect()
}

async fn settling(place: &Place) -> i64 {
    place.db.statements(&["partition FROM bugle.settle_messages("]).await.unwrap()
}

#[tokio::test]
async fn acks_of_a_hundred_callers_are_few_statements_and_a_lone_one_is_one() {
    let place = Place::new().await;
    let mut calls = claimed(&place, 101).await;
    let lone = calls.pop().unwrap();
    assert_eq!(settlements(&place.broker.settle(&lone).await.unwrap()), [Acked]);
    assert_eq!(settling(&place).await, 1);
    for answer in join_all(calls.iter().map(|call| place.broker.settle(call))).await {
        assert_eq!(settlements(&answer.unwrap()), [Acked]);
    }
    let fused = settling(&place).await - 1;
    assert!((1..=2).contains(&fused), "{fused} statements for a hundred acks: one for each lane");
    assert!(place.is_empty("__QUEUE_MODE__").await);
}

#[tokio::test]
async fn an_ack_that_cannot_be_written_fails_alone() {
    let place = Place::new().await;
    let calls = claimed(&place, 20).await;
    place
        .execute(
            "CREATE FUNCTION bugle.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$;
            CREATE TRIGGER refuse BEFORE INSERT ON bugle.group_cursor FOR EACH ROW
            WHEN (NEW.part = 7) EXECUTE FUNCTION bugle.refuse()",
        )
        .await;
    let answers = join_all(calls.iter().map(|call| place.broker.settle(call))).await;
    let (acked, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((acked.len(), refused.len()), (19, 1));
    assert!(acked.into_iter().all(|answer| settlements(&answer.unwrap()) == [Acked]));
    let error = refused.into_iter().next().unwrap().unwrap_err();
    assert_eq!(error.outcome(), bugle::Outcome::Refused);
    assert!(error.to_string().contains("not this one"), "{error}");
}
