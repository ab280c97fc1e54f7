//! Finding instances for a person, and deleting those that have ended.

use crate::fixture::Place;
use bugle_duroxide::{FinishedGroup, PostgresProvider, Which};
use duroxide::providers::{InstanceFilter, ProviderAdmin as _};
use std::time::Duration;

/// Finished instances with and without instances below them, one that runs, one that runs again soon, and one that has not had its first turn.
const INSTANCES: &str = "
    INSERT INTO bugle.instance (id, name, created_at) SELECT 'a' || n, 'A', now() - n * interval '1 s' FROM generate_series(1, 25) AS n;
    INSERT INTO bugle.instance (id, name, parent) SELECT 'b' || n, 'B', 'a' || n FROM generate_series(1, 10) AS n;
    INSERT INTO bugle.instance (id, name, parent) VALUES ('c1', 'C', 'b1');
    INSERT INTO bugle.execution (instance, execution, status, completed_at) SELECT id, 1, 'Completed', now() - interval '1 hour' FROM bugle.instance;
    UPDATE bugle.execution SET status = 'Failed', completed_at = now() WHERE instance IN ('a24', 'a25');
    INSERT INTO bugle.instance (id, name) VALUES ('running', 'A'), ('unborn', NULL);
    INSERT INTO bugle.execution (instance, execution) VALUES ('running', 1);
    INSERT INTO bugle.instance (id, name, created_at) VALUES ('again', 'A', now() - interval '1 hour');
    INSERT INTO bugle.execution (instance, execution, status, completed_at) VALUES ('again', 1, 'ContinuedAsNew', now());";

async fn place() -> (Place, PostgresProvider) {
    let place = Place::new().await;
    let provider = place.at_once().await;
    place.execute(INSTANCES).await;
    (place, provider)
}

fn group(status: &str, roots: u64, instances: u64, found: &FinishedGroup) {
    assert_eq!((found.orchestration.as_str(), found.status.as_str()), ("A", status));
    assert_eq!((found.roots, found.instances), (roots, instances));
    assert!(found.oldest_ms > 0 && found.oldest_ms <= found.newest_ms);
}

#[tokio::test]
async fn find_instances_is_newest_first_and_by_everything_that_was_asked() {
    let (_place, provider) = place().await;
    let of_a = Which { orchestration: Some("A".to_owned()), ..Which::default() };
    let found = provider.find_instances(&of_a, 3).await.unwrap();
    assert_eq!(found.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["running", "a1", "a2"]);
    assert_eq!((found[0].status.as_str(), found[0].ended_ms), ("Running", None));
    let count = async |which: Which| provider.find_instances(&which, 1_000).await.unwrap().len();
    assert_eq!(count(Which::default()).await, 38, "all that have had a turn");
    assert_eq!(count(Which { status: Some("Failed".to_owned()), ..of_a.clone() }).await, 2);
    assert_eq!(count(Which { ended_for: Some(Duration::from_mins(30)), ..of_a }).await, 23);
    assert_eq!(count(Which { id: Some("unborn".to_owned()), ..Which::default() }).await, 0);
}

#[tokio::test]
async fn finished_groups_counts_what_goes_with_what_has_ended() {
    let (_place, provider) = place().await;
    let groups = provider.finished_groups(&Which::default()).await.unwrap();
    assert_eq!(groups.len(), 2);
    group("Completed", 23, 34, &groups[0]);
    group("Failed", 2, 2, &groups[1]);
}

#[tokio::test]
async fn finished_roots_meets_each_of_them_once() {
    let (_place, provider) = place().await;
    let mut met: Vec<String> = Vec::new();
    loop {
        let after = met.last().cloned().unwrap_or_default();
        let step = provider.finished_roots(&Which::default(), &after, 10).await.unwrap();
        if step.is_empty() {
            break;
        }
        met.extend(step);
    }
    assert_eq!(met.len(), 25);
    assert!(met.is_sorted() && met.iter().all(|id| id.starts_with('a')), "{met:?}");
}

/// duroxide: "running instances are never deleted", and a root goes with all below it.
#[tokio::test]
async fn a_tree_in_which_something_goes_on_is_not_deleted_without_force() {
    let (place, provider) = place().await;
    // c1 is below b1, which is below a1; b2 is below a2 and between two executions; b3 below a3 has continued, and nothing will run it.
    place
        .execute(
            "
            UPDATE bugle.execution SET status = 'Running', completed_at = NULL WHERE instance = 'c1';
            UPDATE bugle.execution SET status = 'ContinuedAsNew' WHERE instance IN ('b2', 'b3');
            INSERT INTO bugle.inbox (instance, due) VALUES ('b2', now()), ('again', now());
            INSERT INTO bugle.message (instance, due, kind, item) VALUES ('b2', now(), 'start', '{}')",
        )
        .await;
    let groups = provider.finished_groups(&Which::default()).await.unwrap();
    group("Completed", 21, 29, &groups[0]);
    let roots = provider.finished_roots(&Which::default(), "", 100).await.unwrap();
    assert!(roots.len() == 23 && !roots.contains(&"a1".to_owned()) && !roots.contains(&"a2".to_owned()));
    // Nor are they in the way of the others, however few at a time.
    let filter = InstanceFilter { limit: Some(23), ..InstanceFilter::default() };
    assert_eq!(provider.delete_instance_bulk(filter).await.unwrap().instances_deleted, 31);
    let tree = provider.get_instance_tree("a1").await.unwrap().all_ids;
    assert_eq!(tree, ["a1", "b1", "c1"]);
    let refused = provider.delete_instance("a1", false).await.unwrap_err();
    assert!(!refused.is_retryable() && refused.to_string().contains("\"c1\" is still running"), "{refused}");
    assert_eq!(provider.delete_instance("a1", true).await.unwrap().instances_deleted, 3);
}

#[tokio::test]
async fn what_is_between_two_executions_is_not_deleted_with_what_has_ended() {
    let (place, provider) = place().await;
    place
        .execute("INSERT INTO bugle.inbox (instance, due) VALUES ('again', now()); INSERT INTO bugle.message (instance, due, kind, item) VALUES ('again', now(), 'start', '{}')")
        .await;
    let deleted = provider.delete_instance_bulk(InstanceFilter::default()).await.unwrap();
    assert_eq!(deleted.instances_deleted, 36, "25 roots and 11 below them");
    let left = provider.find_instances(&Which::default(), 10).await.unwrap();
    assert_eq!(left.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["running", "again"]);
    // Without a message nothing will ever run it.
    place.execute("DELETE FROM bugle.message; DELETE FROM bugle.inbox").await;
    let deleted = provider.delete_instance_bulk(InstanceFilter::default()).await.unwrap();
    assert_eq!(deleted.instances_deleted, 1);
}
