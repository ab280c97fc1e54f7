//! Popping from whichever queue has some tags.
use crate::fixture::{HOUR, Place, SOON, message, payloads, until};
use bugle::Bugle;
use bugle::broker::operate::{QueueOptions, Tags};
use bugle::broker::{Pop, Popped, Verdict};

fn tags(namespace: &str, task: Option<&str>) -> Tags {
    Tags { namespace: Some(namespace.to_owned()), task: task.map(str::to_owned) }
}

fn wait(bugle: &Bugle, tags: Tags) -> tokio::task::JoinHandle<Popped> {
    let broker = bugle.broker();
    tokio::spawn(async move { broker.pop_within(&Pop::tagged(tags).unwrap(), HOUR).await.unwrap().unwrap() })
}

async fn answer(waiter: tokio::task::JoinHandle<Popped>) -> Popped {
    tokio::time::timeout(SOON, waiter).await.expect("not served").unwrap()
}

#[tokio::test]
async fn a_pop_by_tags_gets_messages_of_any_queue_that_has_them() {
    let place = Place::new().await;
    place
        .broker
        .push(vec![message("shop.mail", "a", 1), message("shop.bill", "a", 2), message("other.mail", "a", 3)])
        .await
        .unwrap();
    let pop = |namespace, task| Pop::tagged(tags(namespace, task)).unwrap();
    let bill = place.broker.pop(&pop("shop", Some("bill"))).await.unwrap().unwrap();
    assert_eq!((payloads(&bill.messages), bill.queue.as_str()), (vec![2], "shop.bill"));
    let mail = place.broker.pop(&pop("shop", None)).await.unwrap().unwrap();
    assert_eq!(payloads(&mail.messages), [1]);
    assert!(place.broker.pop(&pop("shop", None)).await.unwrap().is_none());
    assert!(pop("shop", None).partition("a").is_err());
}

#[tokio::test]
async fn queues_of_a_higher_priority_go_before() {
    let place = Place::new().await;
    for (queue, priority) in [("low", 1), ("high", 9), ("none", 0)] {
        let priority = (priority > 0).then_some(priority);
        let options =
            QueueOptions { tag_namespace: Some("n".to_owned()), priority, ..QueueOptions::default() };
        place.broker.configure(queue, &options).await.unwrap();
        place.broker.push(vec![message(queue, "a", 1)]).await.unwrap();
    }
    let mut served = Vec::new();
    while let Some(popped) = place.broker.pop(&Pop::tagged(tags("n", None)).unwrap()).await.unwrap() {
        served.push(popped.queue.as_str().to_owned());
        place.settle(&popped, Verdict::Ack).await;
    }
    assert_eq!(served, ["high", "low", "none"]);
}

#[tokio::test]
async fn whoever_waits_by_tags_is_served_once_and_the_rest_is_given_back() {
    let place = Place::new().await;
    for queue in ["n.a", "n.b"] {
        place
            .broker
            .configure(
                queue,
                &QueueOptions { tag_namespace: Some("n".to_owned()), ..QueueOptions::default() },
            )
            .await
            .unwrap();
    }
    let bugle = place.node().await;
    let waiter = wait(&bugle, tags("n", None));
    place.asleep(&bugle, 2).await;
    place.broker.push(vec![message("n.a", "p", 1), message("n.b", "p", 2)]).await.unwrap();
    let popped = answer(waiter).await;
    assert_eq!(popped.messages.len(), 1);
    until("the other is there for somebody else", async || {
        let rest = place.broker.pop(&Pop::tagged(tags("n", None)).unwrap()).await.unwrap();
        rest.is_some_and(|rest| rest.queue != popped.queue && rest.messages[0].tries == 0)
    })
    .await;
}

#[tokio::test]
async fn whoever_waits_by_tags_hears_of_queues_that_come_later() {
    let place = Place::new().await;
    let bugle = place.node().await;
    let waiter = wait(&bugle, tags("shop", Some("mail")));
    until("it listens", async || bugle.node().is_some_and(|node| node.status().listening)).await;
    place.broker.push(vec![message("shop.mail", "a", 7)]).await.unwrap();
    assert_eq!(payloads(&answer(waiter).await.messages), [7]);
    let waiter = wait(&bugle, tags("moved", None));
    place.quiet(&bugle).await;
    place.broker.push(vec![message("plain", "a", 8)]).await.unwrap();
    let options = QueueOptions { tag_namespace: Some("moved".to_owned()), ..QueueOptions::default() };
    place.broker.configure("plain", &options).await.unwrap();
    assert_eq!(payloads(&answer(waiter).await.messages), [8]);
}
