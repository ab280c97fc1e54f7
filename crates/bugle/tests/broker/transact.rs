//! Pushes and verdicts together.
use crate::fixture::{Place, any, message, payloads, settlements, verdicts};
use bugle::broker::Settlement::Acked;
use bugle::broker::{Fault, Operation, Transacted, Transaction, Verdict};
use uuid::Uuid;

#[tokio::test]
async fn pushes_and_acks_happen_together() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let popped = place.pop(1).await;
    let transaction = Transaction {
        push: vec![message("next", "x", 2), message("next", "y", 3)],
        settle: verdicts(&popped, Verdict::Ack),
        required: vec![popped.token],
    };
    let done = place.broker.transact(&transaction).await.unwrap();
    let Transacted::Done { pushed, settled } = done else { panic!("{done:?}") };
    assert_eq!((pushed.len(), settlements(&settled)), (2, vec![Acked]));
    assert!(pushed.iter().all(|pushed| pushed.seq.is_some()));
    assert!(place.is_empty("__QUEUE_MODE__").await);
    let next = bugle::broker::Pop::new("next").unwrap();
    assert_eq!(payloads(&place.broker.pop(&next).await.unwrap().unwrap().messages), [2]);
}

#[tokio::test]
async fn nothing_happens_when_one_thing_cannot() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let key = |payload| message("next", "x", payload).key("k").unwrap();
    place.broker.push(vec![key(0)]).await.unwrap();
    let popped = place.pop(1).await;
    let acks = || verdicts(&popped, Verdict::Ack);
    let refused = [
        Transaction { push: vec![key(1)], settle: acks(), required: vec![] },
        Transaction { push: vec![message("next", "x", 2)], settle: acks(), required: vec![Uuid::now_v7()] },
        Transaction {
            push: vec![message("next", "x", 3)],
            settle: acks().into_iter().chain(stranger(&popped)).collect(),
            required: vec![],
        },
    ];
    let lost = refused[1].required[0];
    let whys = [
        (Operation::Push(0), Fault::Duplicate, "push[0] into queue \"next\", partition \"x\": a message with key \"k\" is there already; leave it out".to_owned()),
        (Operation::Require(lost), Fault::Lost, format!("required lease {lost}: it is not held any more; pop again")),
        (Operation::Settle(1), Fault::Lost, "settle[1] of message ".to_owned()),
    ];
    for (transaction, expected) in refused.iter().zip(whys) {
        let answer = place.broker.transact(transaction).await.unwrap();
        let Transacted::Refused { operation, fault, why } = answer else { panic!("{answer:?}") };
        assert_eq!((operation, fault), (expected.0, expected.1), "{why}");
        assert!(why.starts_with(&expected.2), "{why}");
    }
    assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.message").await, 2);
    assert!(place.is_empty("__QUEUE_MODE__").await, "the claim is as it was");
    assert_eq!(place.settle(&popped, Verdict::Ack).await, [Acked]);
}

fn stranger(popped: &bugle::broker::Popped) -> Vec<bugle::broker::Settle> {
    let mut other = popped.clone();
    other.token = Uuid::now_v7();
    verdicts(&other, Verdict::Ack)
}

#[tokio::test]
async fn an_ended_lease_that_is_required_refuses_everything() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let popped = place.pop(1).await;
    place.expire().await;
    let transaction = Transaction {
        push: vec![message("next", "x", 2)],
        settle: verdicts(&popped, Verdict::Ack),
        required: vec![popped.token],
    };
    let answer = place.broker.transact(&transaction).await.unwrap();
    assert!(matches!(answer, Transacted::Refused { .. }), "{answer:?}");
    assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.message").await, 1);
}

#[tokio::test]
async fn many_transactions_from_queue_to_queue_wait_in_no_circle() {
    let place = Place::new().await;
    for partition in 0..4 {
        place.push(&partition.to_string(), 0..20).await;
    }
    let movers: Vec<_> = (0..8)
        .map(|_| {
            let broker = place.broker.clone();
            tokio::spawn(async move {
                let mut moved = 0;
                while let Some(popped) = broker.pop(&any(2).partitions(2).unwrap()).await.unwrap() {
                    let push =
                        (0..4).rev().map(|partition| message("next", &partition.to_string(), 1)).collect();
                    let settle = verdicts(&popped, Verdict::Ack);
                    let required = vec![popped.token];
                    let done = broker.transact(&Transaction { push, settle, required }).await.unwrap();
                    assert!(matches!(done, Transacted::Done { .. }), "{done:?}");
                    moved += 1;
                }
                moved
            })
        })
        .collect();
    let mut moved = 0;
    for mover in movers {
        moved += mover.await.unwrap();
    }
    let pushed = "SELECT count(*) FROM bugle.message m JOIN bugle.partition p ON p.id = m.part JOIN bugle.queue q ON q.id = p.queue WHERE q.name = 'next'";
    assert_eq!(place.one::<i64>(pushed).await, 4 * moved);
}
