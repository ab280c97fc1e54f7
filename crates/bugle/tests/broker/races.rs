//! Every race, forced: one side stands still in an open transaction while the other comes.
use crate::fixture::{Place, any, payloads, settlements, verdicts};
use bugle::broker::Settlement::{Acked, Lost};
use bugle::broker::{Settlement, Verdict};
use sqlx::PgConnection;

/// A push of one message in an open transaction, under the partition's lock.
async fn pushing(place: &Place, partition: &str, key: &str, payload: i32) -> PgConnection {
    let sql = format!(
        "SELECT bugle.push_messages(ARRAY[q.id], '{{{partition}}}', ARRAY[gen_random_uuid()], '{{{key}}}', '{{NULL}}', '{{NULL}}', '{{{payload}}}')
        FROM bugle.queue q WHERE q.name = 'q'"
    );
    place.began(&sql).await
}

async fn commit(mut session: PgConnection) {
    sqlx::raw_sql("COMMIT").execute(&mut session).await.unwrap();
}

async fn roll_back(mut session: PgConnection) {
    sqlx::raw_sql("ROLLBACK").execute(&mut session).await.unwrap();
}

fn spawn_push(place: &Place, partition: &str, payload: i32) -> tokio::task::JoinHandle<i64> {
    let (broker, message) = (place.broker.clone(), crate::fixture::message("q", partition, payload));
    tokio::spawn(async move { broker.push(vec![message]).await.unwrap().remove(0).unwrap().seq.unwrap() })
}

#[tokio::test]
async fn of_two_producers_the_second_takes_its_number_after_the_first_has_committed() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let first = pushing(&place, "a", "NULL", 2).await;
    let second = spawn_push(&place, "a", 3);
    place.waits_for_a_partition().await;
    assert_eq!(payloads(&place.pop(9).await.messages), [1], "nothing behind an open push is passed");
    commit(first).await;
    second.await.unwrap();
    place.expire().await;
    place.execute("INSERT INTO bugle.news (queue) SELECT id FROM bugle.queue").await;
    let popped = place.pop(9).await;
    assert_eq!(payloads(&popped.messages), [1, 2, 3]);
    assert_eq!(popped.messages.iter().map(|message| message.n).collect::<Vec<_>>(), [1, 2, 3]);
}

#[tokio::test]
async fn a_producer_that_gives_up_leaves_no_gap_in_n() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let first = pushing(&place, "a", "NULL", 2).await;
    let second = spawn_push(&place, "a", 3);
    place.waits_for_a_partition().await;
    roll_back(first).await;
    second.await.unwrap();
    let popped = place.pop(9).await;
    assert_eq!(popped.messages.iter().map(|message| message.n).collect::<Vec<_>>(), [1, 2]);
    assert!(popped.messages[1].seq > popped.messages[0].seq + 1, "seq has one");
}

/// A look of its own, in an open transaction: it has claimed partition `a` for the group and not committed.
async fn claiming(place: &Place) -> PgConnection {
    place
        .began(
            "SELECT bugle.look_messages(ARRAY[q.id], ARRAY[g.id], '{NULL}', ARRAY['{}'], '{1}', '{NULL}', '{9}', '{1}',
                ARRAY['aaaaaaaa-0000-0000-0000-000000000000'::uuid], '{NULL}', '{f}')
            FROM bugle.queue q JOIN bugle.consumer_group g ON g.queue = q.id WHERE q.name = 'q'",
        )
        .await
}

#[tokio::test]
async fn of_two_claims_one_wins() {
    for commits in [true, false] {
        let place = Place::new().await;
        assert!(place.broker.pop(&any(1)).await.unwrap().is_none());
        place.push("a", [1]).await;
        place
            .execute("SELECT bugle.declare_group(id, '__QUEUE_MODE__') FROM bugle.queue WHERE name = 'q'")
            .await;
        let first = claiming(&place).await;
        let broker = place.broker.clone();
        let second = tokio::spawn(async move { broker.pop(&any(9)).await.unwrap() });
        place.waits_for_a_transaction().await;
        if commits {
            commit(first).await;
            assert!(second.await.unwrap().is_none(), "the other has it");
        } else {
            roll_back(first).await;
            assert_eq!(payloads(&second.await.unwrap().unwrap().messages), [1]);
        }
    }
}

#[tokio::test]
async fn a_pop_that_is_dropped_half_way_gives_back_what_it_claims() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    place.execute("SELECT bugle.declare_group(id, '__QUEUE_MODE__') FROM bugle.queue WHERE name = 'q'").await;
    let first = claiming(&place).await;
    let broker = place.broker.clone();
    let pop = tokio::spawn(async move { broker.pop(&any(9)).await });
    place.waits_for_a_transaction().await;
    pop.abort();
    assert!(pop.await.unwrap_err().is_cancelled());
    roll_back(first).await;
    crate::fixture::until("it was claimed and given back", async || {
        let given_back =
            "SELECT count(*) = 2 AND NOT (array_agg(held ORDER BY ver DESC))[1] FROM bugle.group_cursor";
        place.one::<bool>(given_back).await
    })
    .await;
    let popped = place.pop(9).await;
    assert_eq!((payloads(&popped.messages), popped.messages[0].tries), (vec![1], 0));
}

/// A consumer acks while somebody else has just claimed after its lease's end: what it is told, and where the cursor is.
pub(crate) async fn late_ack(place: &Place) -> (Vec<Settlement>, i64) {
    place.push("a", [1]).await;
    let late = place.pop(9).await;
    place.expire().await;
    let first = claiming(place).await;
    let (broker, acks) = (place.broker.clone(), verdicts(&late, Verdict::Ack));
    let ack = tokio::spawn(async move { settlements(&broker.settle(&acks).await.unwrap()) });
    place.waits_for_a_transaction().await;
    commit(first).await;
    (ack.await.unwrap(), place.one("SELECT max(cur) FROM bugle.group_cursor").await)
}

#[tokio::test]
async fn of_a_late_ack_and_a_new_claim_one_wins() {
    let place = Place::new().await;
    assert_eq!(late_ack(&place).await, (vec![Lost], 0), "and the cursor has not moved");
}

#[tokio::test]
async fn a_new_claim_that_meets_a_late_ack_gets_nothing_twice() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let late = place.pop(9).await;
    place.expire().await;
    let token = late.token;
    let ack = place
        .began(&format!(
            "SELECT bugle.settle_messages(1, '{{{}}}', '{{__QUEUE_MODE__}}', '{{{token}}}', '{{{}}}', '{{NULL}}', '{{ack}}', '{{NULL}}')",
            late.messages[0].partition.0, late.messages[0].seq
        ))
        .await;
    let broker = place.bugle.broker();
    place.execute("INSERT INTO bugle.news (queue) SELECT id FROM bugle.queue").await;
    let claim = tokio::spawn(async move { broker.pop(&any(9)).await.unwrap() });
    place.waits_for_a_transaction().await;
    commit(ack).await;
    assert!(claim.await.unwrap().is_none(), "it was acked");
}

/// A push is under way while its partition is released: what is popped afterwards.
pub(crate) async fn push_during_release(place: &Place) -> Option<Vec<i32>> {
    place.push("a", [1]).await;
    let popped = place.pop(9).await;
    // The release does not see the push; the news of the push is read while the partition is still held.
    let push = pushing(place, "a", "NULL", 2).await;
    let token = popped.token;
    let release = place
        .began(&format!(
            "SELECT bugle.settle_messages(1, '{{{}}}', '{{__QUEUE_MODE__}}', '{{{token}}}', '{{{}}}', '{{NULL}}', '{{ack}}', '{{NULL}}')",
            popped.messages[0].partition.0, popped.messages[0].seq
        ))
        .await;
    commit(push).await;
    assert!(place.is_empty("__QUEUE_MODE__").await, "it is held: the node waits for the lease's end");
    commit(release).await;
    place.broker.pop(&any(9)).await.unwrap().map(|popped| payloads(&popped.messages))
}

#[tokio::test]
async fn a_push_that_commits_after_a_release_has_looked_is_found() {
    let place = Place::new().await;
    assert_eq!(push_during_release(&place).await, Some(vec![2]), "every release is news");
}

/// A push commits after others that began later and were looked at: what is popped afterwards.
pub(crate) async fn news_out_of_order(place: &Place) -> Option<Vec<i32>> {
    for partition in ["a", "b"] {
        place.push(partition, [0]).await;
        let popped = place.pop(9).await;
        place.settle(&popped, Verdict::Ack).await;
    }
    let early = pushing(place, "a", "NULL", 1).await;
    for n in 2..5 {
        place.push("b", [n]).await;
        let popped = place.pop(9).await;
        assert_eq!(payloads(&popped.messages), [n]);
        assert_eq!(place.settle(&popped, Verdict::Ack).await, [Acked]);
    }
    assert!(place.is_empty("__QUEUE_MODE__").await);
    commit(early).await;
    place.broker.pop(&any(9)).await.unwrap().map(|popped| payloads(&popped.messages))
}

#[tokio::test]
async fn news_that_commits_out_of_order_is_read() {
    let place = Place::new().await;
    assert_eq!(news_out_of_order(&place).await, Some(vec![1]), "older than all that was seen");
}

/// A user's transaction stays open while others are numbered: all that is popped afterwards.
pub(crate) async fn user_stays_open(place: &Place) -> Vec<i32> {
    place.push("a", [0]).await;
    let user = place.began("SELECT bugle.push('q', 'a', '1')").await;
    for n in 2..5 {
        place.execute(&format!("SELECT bugle.push('q', 'a', '{n}')")).await;
        for _ in 0..2 {
            place.execute("SELECT bugle.number_tail()").await;
        }
    }
    commit(user).await;
    for _ in 0..3 {
        place.execute("SELECT bugle.number_tail()").await;
    }
    payloads(&place.pop(9).await.messages)
}

#[tokio::test]
async fn a_users_transaction_that_stays_open_is_numbered_when_it_ends_and_once() {
    let place = Place::new().await;
    assert_eq!(user_stays_open(&place).await, [0, 2, 3, 4, 1]);
}

#[tokio::test]
async fn two_pushes_with_one_key_at_once_are_one_message() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let first = pushing(&place, "a", "k", 2).await;
    let (broker, message) = (place.broker.clone(), crate::fixture::message("q", "a", 3).key("k").unwrap());
    let second = tokio::spawn(async move { broker.push(vec![message]).await.unwrap().remove(0).unwrap() });
    place.waits_for_a_partition().await;
    commit(first).await;
    assert_eq!(second.await.unwrap().seq, None);
    assert_eq!(payloads(&place.pop(9).await.messages), [1, 2]);
}

#[tokio::test]
async fn a_push_in_flight_while_a_generation_begins_has_its_place_on_either_side() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let open = pushing(&place, "a", "k", 2).await;
    place
        .execute(
            "INSERT INTO bugle.generation (no) VALUES (1); SELECT setval('bugle.message_seq', 4294967296)",
        )
        .await;
    let second = spawn_push(&place, "a", 3);
    place.waits_for_a_partition().await;
    commit(open).await;
    assert!(second.await.unwrap() > 1 << 32);
    let popped = place.pop(9).await;
    assert_eq!(payloads(&popped.messages), [1, 2, 3]);
    assert_eq!(popped.messages.iter().map(|message| message.n).collect::<Vec<_>>(), [1, 2, 3]);
}
