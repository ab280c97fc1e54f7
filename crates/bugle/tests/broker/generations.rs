//! Generations of the log: begun, dropped, and nothing missed.
use crate::fixture::{Place, any, payloads};
use bugle::broker::{Start, Verdict};
use chrono::{Duration, Utc};

impl Place {
    /// Begins the next generation, as time would.
    async fn roll(&self) -> i32 {
        self.execute("SELECT bugle.make_generations()").await;
        self.one("SELECT bugle.begin_generation(now(), true)").await
    }

    async fn generations(&self) -> String {
        self.one(
            "SELECT string_agg(c.relname, ' ' ORDER BY c.relname) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = 'bugle.message'::regclass",
        )
        .await
    }
}

#[tokio::test]
async fn a_generation_begins_when_the_one_before_is_old_or_large_and_two_are_made_ahead() {
    let place = Place::new().await;
    assert_eq!(place.broker.maintain(None).await.unwrap().begun, None, "nothing was pushed");
    place.push("a", [1]).await;
    assert_eq!(place.broker.maintain(None).await.unwrap().begun, None, "it is young");
    let later = Utc::now() + Duration::hours(7);
    let done = place.broker.maintain(Some(later)).await.unwrap();
    assert_eq!(done.begun, Some(1));
    assert_eq!(place.broker.maintain(Some(later)).await.unwrap().begun, None, "nothing was pushed since");
    assert_eq!(place.generations().await, "message_0 message_1 message_2 message_3");
    place.execute("UPDATE bugle.meta SET generation_messages = 3").await;
    place.push("a", [2, 3]).await;
    assert_eq!(place.broker.maintain(None).await.unwrap().begun, None);
    place.push("a", [4]).await;
    assert_eq!(place.broker.maintain(None).await.unwrap().begun, Some(2));
    let popped = place.pop(9).await;
    assert_eq!(payloads(&popped.messages), [1, 2, 3, 4], "one log");
    assert_eq!(popped.messages.iter().map(|message| message.n).collect::<Vec<_>>(), [1, 2, 3, 4]);
}

#[tokio::test]
async fn without_an_option_nothing_is_ever_dropped() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let popped = place.pop(1).await;
    place.settle(&popped, Verdict::Ack).await;
    place.roll().await;
    let done = place.broker.maintain(Some(Utc::now() + Duration::days(10_000))).await.unwrap();
    assert_eq!((done.floors, place.one::<i64>("SELECT count(*) FROM bugle.message").await), (0, 1));
    assert!(place.generations().await.contains("message_0"));
}

#[tokio::test]
async fn retention_hides_old_messages_and_drops_their_generation() {
    let place = Place::new().await;
    place.option("retention_enabled = true, retention_seconds = 3600").await;
    place.push("a", [1, 2]).await;
    place.push("b", [3]).await;
    place.roll().await;
    place.push("a", [4]).await;
    let young = place.broker.maintain(Some(Utc::now() + Duration::minutes(50))).await.unwrap();
    assert_eq!((young.floors, young.dropped), (0, 0), "nothing is that old");
    let old = place.broker.maintain(Some(Utc::now() + Duration::minutes(70))).await.unwrap();
    assert_eq!((old.floors, old.dropped), (1, 1));
    assert!(!place.generations().await.contains("message_0"));
    assert_eq!(payloads(&place.pop(9).await.messages), [4]);
    assert!(place.is_empty("__QUEUE_MODE__").await);
    let again = place.push("b", [5]).await;
    assert_eq!(again[0].partition, place.pop(9).await.messages[0].partition);
    let n: i64 = place.one("SELECT n FROM bugle.message WHERE payload = '5'").await;
    assert_eq!(n, 2, "the numbers of a partition go on, although no message of it is left");
}

#[tokio::test]
async fn completed_retention_waits_for_every_group() {
    let place = Place::new().await;
    place.option("completed_retention_seconds = 60").await;
    place.push("a", [1]).await;
    let slow = any(1).group("slow").unwrap();
    let waits = place.broker.pop(&slow).await.unwrap().unwrap();
    let popped = place.pop(1).await;
    place.settle(&popped, Verdict::Ack).await;
    place.roll().await;
    let later = Some(Utc::now() + Duration::hours(1));
    assert_eq!(place.broker.maintain(later).await.unwrap().floors, 0, "one group is not done");
    place.settle(&waits, Verdict::Ack).await;
    let done = place.broker.maintain(later).await.unwrap();
    assert_eq!((done.floors, done.dropped), (1, 1));
}

#[tokio::test]
async fn a_queue_that_keeps_everything_keeps_the_generation_for_itself() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    place.broker.push(vec![crate::fixture::message("kept", "a", 2)]).await.unwrap();
    place.execute("UPDATE bugle.message_queue SET retention_enabled = true, retention_seconds = 1 WHERE queue = (SELECT id FROM bugle.queue WHERE name = 'q')").await;
    place.roll().await;
    let done = place.broker.maintain(Some(Utc::now() + Duration::hours(1))).await.unwrap();
    assert_eq!((done.floors, done.dropped), (1, 0));
    assert!(place.is_empty("g").await, "hidden all the same");
}

#[tokio::test]
async fn a_generation_that_somebody_reads_is_dropped_later_and_nobody_waits() {
    let place = Place::new().await;
    place.option("retention_enabled = true, retention_seconds = 1").await;
    place.push("a", [1]).await;
    place.roll().await;
    let reader = place.began("SELECT count(*) FROM bugle.message").await;
    let later = Some(Utc::now() + Duration::hours(1));
    assert_eq!(place.broker.maintain(later).await.unwrap().dropped, 0);
    place.push("a", [2]).await;
    assert_eq!(payloads(&place.pop(9).await.messages), [2]);
    drop(reader);
    crate::fixture::until("it is dropped", async || place.broker.maintain(later).await.unwrap().dropped > 0)
        .await;
    assert!(!place.generations().await.contains("message_0"));
}

#[tokio::test]
async fn keys_are_dropped_when_their_window_is_over() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    place.roll().await;
    let keys = "SELECT string_agg(c.relname, ' ' ORDER BY c.relname) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'bugle.message_key'::regclass";
    place.broker.maintain(None).await.unwrap();
    assert!(place.one::<String>(keys).await.contains("message_key_0"));
    place.execute("UPDATE bugle.generation SET opened_at = opened_at - interval '2 days'").await;
    place.broker.maintain(None).await.unwrap();
    assert!(!place.one::<String>(keys).await.contains("message_key_0"));
}

#[tokio::test]
async fn trimming_keeps_what_counts() {
    let place = Place::new().await;
    place.push("a", 0..60).await;
    for _ in 0..30 {
        let popped = place.pop(1).await;
        place.settle(&popped, Verdict::Ack).await;
    }
    let held = place.pop(1).await;
    place.execute("SELECT bugle.push('q', 'b', '1')").await;
    let mut now = Utc::now();
    // Transactions of other tests may be older than the first mark.
    crate::fixture::until("the news is trimmed", async || {
        place.broker.maintain(Some(now)).await.unwrap();
        now += Duration::minutes(11);
        place.one::<i64>("SELECT count(*) FROM bugle.news").await == 0
    })
    .await;
    assert!(place.one::<i64>("SELECT count(*) FROM bugle.group_cursor").await <= 22);
    assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.tail_mark").await, 1);
    assert_eq!(
        payloads(&place.pop(9).await.messages),
        [1],
        "what came by the tail, by a search: the news is gone"
    );
    place.settle(&held, Verdict::Ack).await;
    assert_eq!(payloads(&place.pop(1).await.messages), [31]);
}

#[tokio::test]
async fn a_group_finds_a_time_by_the_marks() {
    let place = Place::new().await;
    place.push("a", [1, 2]).await;
    place.execute("UPDATE bugle.message SET at = at - interval '1 hour'").await;
    place.broker.maintain(None).await.unwrap();
    place.execute("UPDATE bugle.seq_mark SET at = at - interval '30 minutes'").await;
    place.push("a", [3]).await;
    let start = Start::From(Utc::now() - Duration::minutes(20));
    let popped = place.broker.pop(&any(9).group("g").unwrap().start(start)).await.unwrap().unwrap();
    assert_eq!(payloads(&popped.messages), [3]);
    assert_eq!(
        place.one::<i64>("SELECT start FROM bugle.consumer_group").await,
        2,
        "without reading what is older"
    );
}

#[tokio::test]
async fn a_restore_into_another_cluster_loses_no_message() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    for step in
        ["SELECT bugle.push('q', 'a', '2')", "SELECT bugle.number_tail()", "SELECT bugle.push('q', 'a', '3')"]
    {
        place.execute(step).await;
    }
    // As if the numbers came from a cluster that was far ahead.
    place
        .execute(
            "UPDATE bugle.tail SET xid = (xid::text::bigint + 1000000000)::text::xid8; UPDATE bugle.news SET xid = (xid::text::bigint + 1000000000)::text::xid8;
            INSERT INTO bugle.tail_mark (seen) SELECT format('%1$s:%1$s:', max(xid::text::bigint))::pg_snapshot FROM bugle.tail;
            SELECT bugle.rebase()",
        )
        .await;
    assert_eq!(payloads(&place.pop(9).await.messages), [1, 2]);
    place.expire().await;
    place.execute("INSERT INTO bugle.news (queue) SELECT id FROM bugle.queue").await;
    assert_eq!(payloads(&place.pop(9).await.messages), [1, 2, 3], "the third was numbered meanwhile, once");
}
