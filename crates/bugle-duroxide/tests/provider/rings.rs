//! Who rings, for what, and what a ring says; and what becomes of those who wait for it.

use crate::fixture::{
    HOUR, NOW, Place, Turn, Work, activity, counters, event, named, patient, soon, start, started, turn,
    until, waiting_turn, work,
};
use bugle_duroxide::PostgresProvider;
use bugle_testkit::proxy::Fault;
use bugle_wake::Why;
use duroxide::EventKind;
use duroxide::providers::{Provider as _, WorkItem};
use sqlx::postgres::PgListener;
use sqlx::{Connection as _, PgConnection};
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet};

/// All that a ring for turns says: the bucket and the number. Neither an instance nor a time.
const TURNS: &str = "1:1";
/// All that a ring for work says.
const WORK: &str = "2:2";

/// Hears every ring of a place.
struct Ear {
    listener: PgListener,
    talker: PgConnection,
    end: String,
}

impl Ear {
    async fn new(place: &Place) -> Self {
        let channel: String = place.one("SELECT bugle.bell_channel()").await;
        let end = format!("end_{channel}");
        let mut listener = PgListener::connect_with(place.db.pool()).await.unwrap();
        listener.listen_all([channel.as_str(), end.as_str()]).await.unwrap();
        let talker = PgConnection::connect_with(place.db.connect_options()).await.unwrap();
        Self { listener, talker, end }
    }

    /// Everything since the last call, sorted. Notifications come in the order of commits: whatever was committed before is heard before the end
    /// that this sends itself, so silence is proven and not waited for.
    async fn heard(&mut self) -> Vec<String> {
        sqlx::query("SELECT pg_notify($1, '')").bind(&self.end).execute(&mut self.talker).await.unwrap();
        let mut heard = Vec::new();
        loop {
            let call = soon("a notification", self.listener.recv()).await.unwrap();
            if call.channel() == self.end {
                heard.sort();
                return heard;
            }
            heard.push(call.payload().to_owned());
        }
    }
}

/// Two fetches of a node that sleep, one for a turn and one for work.
async fn asleep_for_both(
    place: &Place,
    node: &PostgresProvider,
) -> (JoinHandle<Option<Turn>>, JoinHandle<Option<Work>>) {
    let for_work = tokio::spawn({
        let node = node.clone();
        async move { work(&node, HOUR, HOUR).await }
    });
    let for_turn = waiting_turn(node);
    until("both bells are held", async || {
        place.one::<i64>("SELECT count(*) FROM bugle.seat WHERE seat = 'sentinel'").await == 2
    })
    .await;
    place.asleep(node, 2).await;
    (for_turn, for_work)
}

#[tokio::test]
async fn a_start_rings_for_turns_and_an_activity_for_work() {
    let place = Place::new().await;
    let (node, producer) = (place.waiting().await, place.at_once().await);
    let (for_turn, for_work) = asleep_for_both(&place, &node).await;
    let mut ear = Ear::new(&place).await;
    producer.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    assert_eq!(ear.heard().await, [TURNS]);
    assert_eq!(for_turn.await.unwrap().expect("it was woken").0.instance, "i");
    producer.enqueue_for_worker(activity("i", 1, None)).await.unwrap();
    assert_eq!(ear.heard().await, [WORK]);
    assert_eq!(for_work.await.unwrap().expect("it was woken").0, activity("i", 1, None));
    let counters = counters(&node);
    assert_eq!(
        (counters.rings.get(), counters.looks_by(Why::Ring)),
        (2, 2),
        "by its ring and by nothing else"
    );
}

/// Nothing in the schema rings by itself: whatever writes must have thought of it.
#[tokio::test]
async fn an_ack_rings_for_everything_that_it_makes_runnable() {
    let place = Place::new().await;
    let (node, producer) = (place.waiting().await, place.at_once().await);
    producer.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    let (_, token, _) = turn(&producer, HOUR, NOW).await.unwrap();
    let (for_turn, for_work) = asleep_for_both(&place, &node).await;
    let mut ear = Ear::new(&place).await;

    let scheduled = EventKind::ActivityScheduled {
        name: "Activity".to_owned(),
        input: String::new(),
        session_id: None,
        tag: None,
    };
    let events = vec![started("i"), event("i", 2, scheduled)];
    let (activities, messages) = (vec![activity("i", 2, None)], vec![start("child")]);
    producer.ack_orchestration_item(&token, 1, events, activities, messages, named(), vec![]).await.unwrap();
    assert_eq!(ear.heard().await, [TURNS, WORK]);
    assert_eq!(for_turn.await.unwrap().expect("it was woken").0.instance, "child");
    let (_, token, _) = for_work.await.unwrap().expect("it was woken");

    let for_turn = waiting_turn(&node);
    place.asleep(&node, 1).await;
    let result = String::new();
    let done = WorkItem::ActivityCompleted { instance: "i".to_owned(), execution_id: 1, id: 2, result };
    node.ack_work_item(&token, Some(done.clone())).await.unwrap();
    assert_eq!(ear.heard().await, [TURNS]);
    let (item, ..) = for_turn.await.unwrap().expect("it was woken");
    assert_eq!((item.instance.as_str(), item.messages), ("i", vec![done]));
}

#[tokio::test]
async fn what_is_there_already_is_fetched_at_once_and_rang_for_nobody() {
    let place = Place::new().await;
    let (node, producer) = (place.waiting().await, place.at_once().await);
    let mut ear = Ear::new(&place).await;
    producer.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    producer.enqueue_for_worker(activity("i", 1, None)).await.unwrap();
    assert!(ear.heard().await.is_empty(), "nobody slept");
    let both = async { tokio::join!(turn(&node, HOUR, HOUR), work(&node, HOUR, HOUR)) };
    let (claimed, work) = soon("what is there is fetched", both).await;
    assert!(claimed.is_some() && work.is_some());
    assert_eq!((counters(&node).rings.get(), counters(&node).empty_looks.get()), (0, 0));
}

#[tokio::test]
async fn what_is_for_later_rings_now_and_the_look_says_when() {
    let place = Place::new().await;
    let (node, producer) = (place.waiting().await, place.at_once().await);
    let fetch = waiting_turn(&node);
    place.asleep(&node, 1).await;
    assert!(node.node().unwrap().status().sleeps.is_empty());
    let mut ear = Ear::new(&place).await;
    producer.enqueue_for_orchestrator(start("late"), Some(HOUR)).await.unwrap();
    assert_eq!(ear.heard().await, [TURNS]);
    until("it sleeps until then", async || {
        let sleeps = node.node().unwrap().status().sleeps;
        matches!(sleeps[..], [("timer", time)] if (HOUR / 2..HOUR).contains(&time))
    })
    .await;
    assert!(!fetch.is_finished());
    fetch.abort();
}

#[tokio::test]
async fn of_four_who_wait_one_gets_the_only_turn_by_one_look() {
    let place = Place::new().await;
    let (node, producer) = (place.waiting().await, place.at_once().await);
    let mut waits = JoinSet::new();
    for _ in 0..4 {
        let node = node.clone();
        waits.spawn(async move { turn(&node, HOUR, HOUR).await });
    }
    place.asleep(&node, 4).await;
    let looks = counters(&node).looks.get();
    producer.enqueue_for_orchestrator(start("only"), None).await.unwrap();
    assert_eq!(waits.join_next().await.unwrap().unwrap().expect("one is served").0.instance, "only");
    place.asleep(&node, 3).await;
    assert_eq!(counters(&node).looks.get() - looks, 1, "the others sleep on");
}

#[tokio::test]
async fn of_those_who_wait_on_two_nodes_one_gets_the_only_turn() {
    let place = Place::new().await;
    let (nodes, producer) = ([place.waiting().await, place.waiting().await], place.at_once().await);
    let mut waits = JoinSet::new();
    for node in &nodes {
        for _ in 0..2 {
            let node = node.clone();
            waits.spawn(async move { turn(&node, HOUR, HOUR).await });
        }
        place.asleep(node, 2).await;
    }
    for (instance, left) in [("first", 3), ("second", 2)] {
        let looked = nodes.each_ref().map(|node| counters(node).looks_by(Why::Ring));
        producer.enqueue_for_orchestrator(start(instance), None).await.unwrap();
        assert_eq!(waits.join_next().await.unwrap().unwrap().expect("one is served").0.instance, instance);
        until("both nodes have looked, and the others wait on", async || {
            let waiting: usize = nodes.iter().map(|node| node.node().unwrap().status().intentions).sum();
            let mut each = nodes.iter().zip(looked);
            waiting == left && each.all(|(node, before)| counters(node).looks_by(Why::Ring) > before)
        })
        .await;
        assert_eq!(waits.len(), left);
    }
}

/// A ring that gets lost is the fallback's to find, and no secret.
#[tokio::test]
async fn what_no_ring_announced_is_found_by_the_fallback_and_is_an_alarm() {
    let place = Place::new().await;
    let proxy = place.proxy().await;
    let node = place.heard_through(&proxy, patient().fallback_interval(Duration::from_secs(2))).await;
    let fetch = waiting_turn(&node);
    place.asleep(&node, 1).await;
    let lost = proxy.set(Fault::drop_notifications());
    place.at_once().await.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    lost.has_hit(1).await;
    lost.lift();
    assert_eq!(fetch.await.unwrap().expect("the heartbeat finds it").0.instance, "i");
    let counters = counters(&node);
    until("it is an alarm", async || (counters.fallback_hits.get(), counters.alerts.get()) == (1, 1)).await;
    assert_eq!(counters.looks_by(Why::Ring), 0);
}
