//! What people do with queues and groups.
use crate::fixture::{HOUR, Place, SOON, any, message, payloads, verdicts};
use bugle::broker::operate::{Filter, QueueOptions, Seek, Tags};
use bugle::broker::{PartitionId, Pop, Settlement, Verdict};
use chrono::{Duration, Utc};

#[tokio::test]
async fn options_are_told_all_at_once_and_what_is_not_told_is_not_there() {
    let place = Place::new().await;
    let options = QueueOptions { lease_seconds: Some(7), ttl_seconds: Some(9), ..QueueOptions::default() };
    place.broker.configure("q", &options).await.unwrap();
    let (row, partitions) = place.broker.show_queue("q").await.unwrap().unwrap();
    assert_eq!(row.options, options);
    assert_eq!(partitions[0].partition, "Default");
    let options = QueueOptions { tag_task: Some("t".to_owned()), ..QueueOptions::default() };
    place.broker.configure("q", &options).await.unwrap();
    assert_eq!(place.broker.show_queue("q").await.unwrap().unwrap().0.options, options);
    let wrong = QueueOptions { lease_seconds: Some(-1), ..QueueOptions::default() };
    assert!(place.broker.configure("q", &wrong).await.is_err());
    place.bugle.queue("jobs").await.unwrap();
    let refused = place.broker.configure("jobs", &options).await.unwrap_err().to_string();
    assert!(refused.contains("\"jobs\" holds jobs") && refused.contains("configure"), "{refused}");
}

#[tokio::test]
async fn a_dotted_name_says_two_tags() {
    let place = Place::new().await;
    place.broker.push(vec![message("shop.mail", "a", 1), message("plain", "a", 2)]).await.unwrap();
    let tags = |namespace: Option<&str>, task: Option<&str>| Tags {
        namespace: namespace.map(str::to_owned),
        task: task.map(str::to_owned),
    };
    let names = async |tags: Tags| -> Vec<String> {
        place.broker.list_queues(&tags).await.unwrap().into_iter().map(|row| row.name).collect()
    };
    assert_eq!(names(tags(Some("shop"), None)).await, ["shop.mail"]);
    assert_eq!(names(tags(Some("shop"), Some("mail"))).await, ["shop.mail"]);
    assert!(names(tags(Some("shop"), Some("other"))).await.is_empty());
    assert_eq!(names(Tags::default()).await, ["plain", "shop.mail"]);
}

#[tokio::test]
async fn counts_are_exact() {
    let place = Place::new().await;
    place.push("a", [1, 2, 3, 4]).await;
    place.push("b", [5]).await;
    let counts = async || {
        let (row, _) = place.broker.show_queue("q").await.unwrap().unwrap();
        (row.partitions, row.total, row.pending, row.leased, row.dead)
    };
    assert_eq!(counts().await, (2, 5, 5, 0, 0), "without a group everything is pending");
    let popped = place.pop(3).await;
    assert_eq!(counts().await, (2, 5, 5, 3, 0));
    place.broker.settle(&verdicts(&popped, Verdict::Ack)[..1]).await.unwrap();
    assert_eq!(counts().await, (2, 5, 4, 2, 0));
    place.broker.settle(&verdicts(&popped, Verdict::Dead)[1..2]).await.unwrap();
    place.broker.settle(&verdicts(&popped, Verdict::Ack)[2..]).await.unwrap();
    assert_eq!(counts().await, (2, 5, 2, 0, 1));
    let (_, partitions) = place.broker.show_queue("q").await.unwrap().unwrap();
    let a = &partitions[0];
    assert_eq!((a.partition.as_str(), a.total, a.pending, a.dead), ("a", 4, 1, 1));
    assert!(a.first_at < a.last_at);
    let groups = place.broker.list_groups(Some("q")).await.unwrap();
    assert_eq!((groups[0].lag, groups[0].partitions_behind, groups[0].partitions), (2, 2, 2));
    let lag = place.broker.lag("q", Some("__QUEUE_MODE__")).await.unwrap();
    assert_eq!(
        lag.iter().map(|row| (row.partition.as_str(), row.lag)).collect::<Vec<_>>(),
        [("a", 1), ("b", 1)]
    );
    assert!(place.broker.list_groups(Some("nowhere")).await.unwrap().is_empty());
    assert!(place.broker.show_queue("nowhere").await.unwrap().is_none());
}

#[tokio::test]
async fn a_group_is_moved_to_the_end_the_beginning_and_a_time() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let between = place.one("SELECT clock_timestamp()").await;
    place.push("a", [2]).await;
    let seek = async |to| assert!(place.broker.seek("q", "__QUEUE_MODE__", to).await.unwrap());
    let popped = place.pop(9).await;
    seek(Seek::Beginning).await;
    assert_eq!(place.settle(&popped, Verdict::Ack).await, [Settlement::Lost; 2], "its leases are lost");
    let popped = place.pop(9).await;
    assert_eq!(payloads(&popped.messages), [1, 2]);
    place.settle(&popped, Verdict::Ack).await;
    seek(Seek::Time(between)).await;
    assert_eq!(payloads(&place.pop(9).await.messages), [2]);
    seek(Seek::End).await;
    assert!(place.is_empty("__QUEUE_MODE__").await);
    place.push("a", [3]).await;
    assert_eq!(payloads(&place.pop(9).await.messages), [3]);
    assert!(!place.broker.seek("nowhere", "g", Seek::End).await.unwrap());
}

#[tokio::test]
async fn whoever_waits_is_woken_by_a_seek() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let popped = place.pop(9).await;
    place.settle(&popped, Verdict::Ack).await;
    let bugle = place.node().await;
    let broker = bugle.broker();
    let waiter = tokio::spawn(async move { broker.pop_within(&any(9), HOUR).await });
    place.asleep(&bugle, 1).await;
    place.broker.seek("q", "__QUEUE_MODE__", Seek::Beginning).await.unwrap();
    let popped = tokio::time::timeout(SOON, waiter).await.expect("not woken").unwrap().unwrap().unwrap();
    assert_eq!(payloads(&popped.messages), [1]);
}

#[tokio::test]
async fn a_group_is_moved_in_one_partition_alone() {
    let place = Place::new().await;
    place.push("a", [1, 2]).await;
    place.push("b", [3]).await;
    let held = place.broker.pop(&Pop::new("q").unwrap().partition("a").unwrap()).await.unwrap().unwrap();
    let at = place.broker.seek_partition("q", "__QUEUE_MODE__", "a").await.unwrap();
    assert_eq!(at, Some(2));
    assert_eq!(place.settle(&held, Verdict::Ack).await, [Settlement::Lost]);
    assert_eq!(payloads(&place.pop(9).await.messages), [3]);
    assert!(place.is_empty("__QUEUE_MODE__").await);
    assert_eq!(place.broker.seek_partition("q", "__QUEUE_MODE__", "z").await.unwrap(), None);
    assert_eq!(place.broker.seek_partition("q", "nobody", "a").await.unwrap(), None);
}

#[tokio::test]
async fn a_group_that_was_deleted_begins_anew() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let popped = place.pop(9).await;
    place.settle(&popped, Verdict::Ack).await;
    assert!(place.broker.delete_group("q", "__QUEUE_MODE__").await.unwrap());
    assert!(!place.broker.delete_group("q", "__QUEUE_MODE__").await.unwrap());
    assert!(place.broker.list_groups(None).await.unwrap().is_empty());
    assert_eq!(payloads(&place.pop(9).await.messages), [1]);
}

#[tokio::test]
async fn a_queue_is_cleared_for_all_groups() {
    let place = Place::new().await;
    place.push("a", [1, 2]).await;
    assert!(place.broker.clear_queue("q").await.unwrap());
    assert!(place.is_empty("g").await);
    let (row, _) = place.broker.show_queue("q").await.unwrap().unwrap();
    assert_eq!((row.total, row.pending), (0, 0));
    place.push("a", [3]).await;
    assert_eq!(payloads(&place.pop(9).await.messages), [3]);
    assert!(!place.broker.clear_queue("nowhere").await.unwrap());
}

#[tokio::test]
async fn a_queue_that_was_deleted_is_made_anew_by_whoever_uses_it() {
    let place = Place::new().await;
    let other = place.db.bugle().await.unwrap().broker();
    place.push("a", [1]).await;
    let popped = place.pop(1).await;
    assert!(place.broker.pop(&any(1).group("g").unwrap()).await.unwrap().is_some());
    assert!(other.delete_queue("q").await.unwrap());
    assert!(!other.delete_queue("q").await.unwrap());
    assert_eq!(place.settle(&popped, Verdict::Ack).await, [Settlement::Lost]);
    assert!(place.is_empty("g").await, "what the node remembers is not there any more");
    place.push("a", [2]).await;
    let popped = place.broker.pop(&any(9).group("g").unwrap()).await.unwrap().unwrap();
    assert_eq!(payloads(&popped.messages), [2]);
    assert_eq!(popped.messages[0].n, 1);
}

#[tokio::test]
async fn whoever_waits_for_a_queue_that_is_deleted_gets_what_is_pushed_when_it_is_made_anew() {
    let place = Place::new().await;
    let bugle = place.node().await;
    let waits = |pop: Pop| {
        let broker = bugle.broker();
        tokio::spawn(async move { broker.pop_within(&pop, HOUR).await })
    };
    let bound = waits(Pop::new("q").unwrap().partition("a").unwrap());
    let free = waits(any(9).group("g").unwrap());
    place.asleep(&bugle, 2).await;
    place.broker.delete_queue("q").await.unwrap();
    place.push("a", [1]).await;
    for waiter in [bound, free] {
        let popped = tokio::time::timeout(SOON, waiter).await.expect("not served").unwrap().unwrap().unwrap();
        assert_eq!(payloads(&popped.messages), [1]);
    }
}

#[tokio::test]
async fn dead_letters_are_listed_put_back_for_their_group_and_thrown_away() {
    let place = Place::new().await;
    let with_key = |payload: i32| message("q", "a", payload).key(&format!("t-{payload}")).unwrap();
    place.broker.push((1..=3).map(with_key).collect()).await.unwrap();
    let popped = place.pop(9).await;
    let dead: Vec<_> =
        verdicts(&popped, Verdict::Dead).into_iter().map(|dead| dead.error("poison")).collect();
    place.broker.settle(&dead).await.unwrap();
    let other = any(9).group("other").unwrap();
    let all = place.broker.pop(&other).await.unwrap().unwrap();
    place.settle(&all, Verdict::Ack).await;

    let (rows, total) = place.broker.list_dead(Some("q"), None, 2, 0).await.unwrap();
    assert_eq!((rows.len(), total), (2, 3));
    let first = rows.last().unwrap();
    assert_eq!((first.error.as_deref(), first.tries, first.partition.as_str()), (Some("poison"), 1, "a"));
    assert_eq!(place.broker.list_dead(None, Some("other"), 9, 0).await.unwrap().1, 0);

    let part = popped.messages[0].partition;
    assert_eq!(place.broker.redrive_dead("q", None, Some(part), Some("t-2")).await.unwrap(), 1);
    assert_eq!(place.broker.purge_dead("q", None, Some(part), Some("t-1")).await.unwrap(), 1);
    assert_eq!(place.broker.list_dead(None, None, 9, 0).await.unwrap().1, 1);
    let again = place.pop(9).await;
    assert_eq!(payloads(&again.messages), [2]);
    assert_eq!(
        (again.messages[0].id, again.messages[0].key.as_deref()),
        (popped.messages[1].id, Some("t-2"))
    );
    assert_eq!(again.messages[0].n, 4, "at the end of its partition");
    assert!(place.broker.pop(&other).await.unwrap().is_none(), "for its own group alone");
    place.push("a", [4]).await;
    assert_eq!(payloads(&place.broker.pop(&other).await.unwrap().unwrap().messages), [4]);
    assert_eq!(place.broker.redrive_dead("q", Some("other"), None, None).await.unwrap(), 0);
    assert_eq!(place.broker.redrive_dead("nowhere", None, None, None).await.unwrap(), 0);
}

#[tokio::test]
async fn messages_are_listed_by_page_the_newest_first() {
    let place = Place::new().await;
    place.push("a", 0..5).await;
    place.push("b", 5..10).await;
    let mut filter = Filter { queue: Some("q".to_owned()), limit: 4, ..Filter::default() };
    let mut seen = Vec::new();
    loop {
        let page = place.broker.list_messages(&filter).await.unwrap();
        let Some(last) = page.last() else { break };
        filter.before = Some(last.seq);
        seen.extend(page.iter().map(|row| row.seq));
    }
    assert_eq!(seen, (1..=10).rev().collect::<Vec<i64>>());
    let one = Filter { partition: Some("a".to_owned()), ..Filter::default() };
    assert_eq!(place.broker.list_messages(&one).await.unwrap().len(), 5);
    let future = Filter { from: Some(Utc::now() + Duration::hours(1)), ..Filter::default() };
    assert!(place.broker.list_messages(&future).await.unwrap().is_empty());
    let past = Filter { to: Some(Utc::now() + Duration::hours(1)), ..Filter::default() };
    assert_eq!(place.broker.list_messages(&past).await.unwrap().len(), 10);
}

#[tokio::test]
async fn a_message_is_shown_with_what_it_is_to_each_group() {
    let place = Place::new().await;
    place.broker.push(vec![message("q", "a", 1).key("t-1").unwrap(), message("q", "a", 2)]).await.unwrap();
    let popped = place.pop(9).await;
    place.broker.settle(&verdicts(&popped, Verdict::Ack)[..1]).await.unwrap();
    let part = popped.messages[0].partition;
    let view = place.broker.show_message(part, "t-1").await.unwrap().unwrap();
    assert_eq!((view.payload.as_str(), view.row.done_by, view.row.groups), ("1", 1, 1));
    assert!(view.groups[0].is_done);
    let id = popped.messages[1].id.to_string();
    let view = place.broker.show_message(part, &id).await.unwrap().unwrap();
    assert_eq!((view.payload.as_str(), view.row.done_by, view.row.leased_by), ("2", 0, 1));
    assert!(!view.groups[0].is_done && view.groups[0].until.is_some());
    assert!(place.broker.show_message(part, "t-3").await.unwrap().is_none());
    assert!(place.broker.show_message(PartitionId(99), "t-1").await.unwrap().is_none());
}
