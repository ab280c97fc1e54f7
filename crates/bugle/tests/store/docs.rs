//! docs/jobs.md names every counter of a worker.
use bugle::jobs::worker::{Counters, KindCounters};

const DOCS: &str = include_str!("../../../../docs/jobs.md");

#[test]
fn every_counter_of_a_kind_is_in_the_docs() {
    for (name, _, meaning) in KindCounters::default().table() {
        assert!(
            DOCS.contains(&format!("`{name}`")) && !meaning.is_empty(),
            "docs/jobs.md does not name {name}"
        );
    }
    assert_eq!(Counters::default().kinds().map(|(kind, _)| kind).collect::<Vec<_>>(), ["other"]);
}
