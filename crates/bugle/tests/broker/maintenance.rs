//! Maintenance, and where a partition belongs.
use crate::fixture::{Place, until};
use bugle::broker::PartitionId;
use bugle::broker::operate::Maintenance;

#[tokio::test]
async fn maintenance_is_set_for_all_and_every_node_is_told() {
    let place = Place::new().await;
    let node = place.node().await;
    let changes = node.control_changes();
    until("the node listens", async || node.node().is_some_and(|node| node.status().listening)).await;
    let before = *changes.borrow();
    assert_eq!(place.broker.maintenance().await.unwrap(), Maintenance::default());
    let set = place.broker.set_maintenance(Some(true), None).await.unwrap();
    assert_eq!(set, Maintenance { push: true, pop: false });
    until("the node is told", async || *changes.borrow() != before).await;
    let set = node.broker().set_maintenance(None, Some(true)).await.unwrap();
    assert_eq!(set, Maintenance { push: true, pop: true }, "what is not named stays");
    assert_eq!(place.broker.maintenance().await.unwrap(), set);
}

#[tokio::test]
async fn a_partition_is_found_by_its_name_and_its_queue_by_the_partition() {
    let place = Place::new().await;
    let pushed = place.push("a", [1]).await;
    let id = pushed[0].partition;
    assert_eq!(place.broker.partition_id("q", "a").await.unwrap(), Some(id));
    assert_eq!(place.broker.partition_id("q", "b").await.unwrap(), None);
    assert_eq!(place.broker.partition_id("other", "a").await.unwrap(), None);
    assert_eq!(place.broker.queue_of(id).await.unwrap().as_deref(), Some("q"));
    assert_eq!(place.broker.queue_of(PartitionId(i32::MAX)).await.unwrap(), None);
}
