//! What a push promises.
use crate::fixture::{Place, any, message, payloads, raw};
use bugle::broker::Message;
use bugle::limits::MESSAGE_BYTES_MAX;
use bugle::{Error, Outcome};

#[tokio::test]
async fn answers_come_in_the_order_of_the_messages() {
    let place = Place::new().await;
    let messages =
        vec![message("q", "b", 1), message("p", "a", 2), message("q", "a", 3), message("q", "b", 4)];
    let pushed: Vec<_> = place.broker.push(messages).await.unwrap().into_iter().map(Result::unwrap).collect();
    assert_eq!(pushed[0].partition, pushed[3].partition);
    assert_ne!(pushed[1].partition, pushed[2].partition, "names of partitions belong to their queues");
    let seqs: Vec<i64> = pushed.iter().map(|pushed| pushed.seq.unwrap()).collect();
    assert!(seqs.is_sorted(), "{seqs:?}");
    let numbers: Vec<i64> =
        sqlx::query_scalar(place.db.sql("SELECT n FROM bugle.message ORDER BY seq").unwrap())
            .fetch_all(place.db.pool())
            .await
            .unwrap();
    assert_eq!(numbers, [1, 1, 1, 2], "dense in each partition");
}

#[tokio::test]
async fn a_message_arrives_as_it_was_sent() {
    let place = Place::new().await;
    let trace = uuid::Uuid::now_v7();
    let odd = raw("{\"a\": [1, null, \"\\u0000 é\"],  \"a\":2}");
    let sent =
        Message::new("q", odd.clone()).unwrap().key("k").unwrap().trace(trace).pushed_by("ann").unwrap();
    let pushed = place.broker.push(vec![sent]).await.unwrap().remove(0).unwrap();
    let popped = place.pop(1).await;
    let got = &popped.messages[0];
    assert_eq!(got.payload, odd.get(), "to the byte");
    assert_eq!((got.id, got.partition, Some(got.seq)), (pushed.id, pushed.partition, pushed.seq));
    assert_eq!((got.key.as_deref(), got.trace, got.sub.as_deref()), (Some("k"), Some(trace), Some("ann")));
    assert_eq!((&*got.partition_name, got.n, got.tries), ("Default", 1, 0));
}

#[tokio::test]
async fn same_key_same_message_in_its_partition() {
    let place = Place::new().await;
    let with_key = |partition: &str, payload: i32| message("q", partition, payload).key("k").unwrap();
    let first = place
        .broker
        .push(vec![with_key("a", 1), with_key("a", 2), message("q", "a", 3), with_key("b", 4)])
        .await
        .unwrap();
    let first: Vec<_> = first.into_iter().map(Result::unwrap).collect();
    assert_eq!((first[1].seq, first[1].id), (None, first[0].id), "also within one push");
    assert!(first[3].seq.is_some(), "in another partition it is another message");
    let second = place.broker.push(vec![with_key("a", 5)]).await.unwrap().remove(0).unwrap();
    assert_eq!((second.seq, second.id, second.partition), (None, first[0].id, first[0].partition));
    place.execute("UPDATE bugle.generation SET opened_at = opened_at - interval '2 days'").await;
    place
        .execute(
            "INSERT INTO bugle.generation (no) VALUES (1); SELECT setval('bugle.message_seq', 4294967296)",
        )
        .await;
    let kept = place.broker.push(vec![with_key("a", 6)]).await.unwrap().remove(0).unwrap();
    assert_eq!(kept.seq, None, "the window has not ended");
    place.execute("UPDATE bugle.generation SET opened_at = opened_at - interval '2 days'").await;
    let late = place.broker.push(vec![with_key("a", 7)]).await.unwrap().remove(0).unwrap();
    assert!(late.seq.is_some(), "the window has ended");
}

#[tokio::test]
async fn one_message_that_cannot_be_pushed_does_not_hold_up_the_others() {
    let place = Place::new().await;
    place.bugle.queue("jobs").await.unwrap();
    let answers = place
        .broker
        .push(vec![message("q", "a", 1), message("jobs", "a", 2), message("q", "a", 3)])
        .await
        .unwrap();
    assert!(answers[0].is_ok() && answers[2].is_ok());
    let error = answers[1].as_ref().unwrap_err();
    assert!(matches!(error, Error::Refused { code, .. } if code == "BGL04"), "{error}");
    let error = error.to_string();
    assert!(error.contains("\"jobs\" holds jobs") && error.contains("push"), "{error}");
    assert_eq!(payloads(&place.pop(9).await.messages), [1, 3]);
}

#[tokio::test]
async fn a_queue_of_messages_takes_no_jobs() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let bugle = &place.bugle;
    for error in [
        bugle.enqueue_raw("q", "k", raw("1")).send().await.unwrap_err(),
        bugle.enqueue_many_raw("q", "k", vec![raw("1")]).send().await.unwrap_err(),
        bugle.enqueue_raw("q", "k", raw("1")).key("x").send().await.unwrap_err(),
        bugle.enqueue_bulk_raw("q", "k", [raw("1")].into_iter()).send().await.unwrap_err(),
        bugle.queue("q").await.err().unwrap(),
        bugle.pause("q").await.unwrap_err(),
    ] {
        assert_eq!(error.outcome(), Outcome::Refused);
        let error = error.to_string();
        assert!(error.contains("queue \"q\" holds messages") && error.contains("enqueue"), "{error}");
    }
    assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.job").await, 0);
}

#[tokio::test]
async fn bad_input_is_refused_before_anything_is_sent() {
    let place = Place::new().await;
    assert!(Message::new("", raw("1")).is_err());
    assert!(Message::new("q", raw("1")).unwrap().partition("a\nb").is_err());
    assert!(Message::new("q", raw("1")).unwrap().key("").is_err());
    let long = format!("\"{}\"", "x".repeat(MESSAGE_BYTES_MAX));
    assert!(Message::new("q", raw(&long)).is_err());
    assert!(place.broker.push(vec![]).await.unwrap().is_empty());
    let long = format!("SELECT bugle.push('q', 'a', to_jsonb(repeat('x', {MESSAGE_BYTES_MAX})))");
    let refused = sqlx::raw_sql(place.db.sql(&long).unwrap()).execute(place.db.pool()).await.unwrap_err();
    assert!(refused.to_string().contains("1048576"), "{refused}");
}

#[tokio::test]
async fn another_isolation_level_is_refused() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let push = "SELECT bugle.push_messages('{1}', '{a}', ARRAY[gen_random_uuid()], '{NULL}', '{NULL}', '{NULL}', '{1}')";
    let mut session = place.began("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await;
    let refused = sqlx::raw_sql(place.db.sql(push).unwrap()).execute(&mut session).await.unwrap_err();
    assert!(refused.to_string().contains("push runs in repeatable read isolation"), "{refused}");
}

#[tokio::test]
async fn many_who_make_the_same_queues_and_partitions_at_once_wait_in_no_circle() {
    let place = Place::new().await;
    let pushers = (0..12_usize).map(|pusher| {
        let broker = place.broker.clone();
        tokio::spawn(async move {
            for round in 0..5 {
                // Each in another order.
                let mut messages: Vec<_> =
                    (0..24).map(|n| message(&format!("q{}", n % 3), &format!("{round}-{n}"), 1)).collect();
                messages.rotate_left(pusher * 2);
                if pusher % 2 == 1 {
                    messages.reverse();
                }
                for answer in broker.push(messages).await.unwrap() {
                    answer.unwrap();
                }
            }
        })
    });
    for pusher in pushers.collect::<Vec<_>>() {
        pusher.await.unwrap();
    }
    assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.message").await, 12 * 5 * 24);
    assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.partition").await, 5 * 24);
    let dense = "SELECT bool_and(ok) FROM (SELECT max(n) = count(*) AND min(n) = 1 AS ok FROM bugle.message GROUP BY part) s";
    assert!(place.one::<bool>(dense).await);
    assert!(place.broker.pop(&any(1)).await.unwrap().is_none(), "another queue has nothing");
}
