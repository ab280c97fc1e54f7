//! What a server counts of workflows whose workers speak HTTP.
use crate::fixture::Site;
use crate::flow::{CLAIM_AND_WAIT, answered, later, one_step};
use serde_json::json;

#[tokio::test]
async fn prometheus_reads_what_was_claimed_and_how_deep_queues_are() {
    let site = Site::with_flow("name: d\nsteps: [ { name: a }, { name: b, after: a } ]").await;
    let waiter = later(&site, CLAIM_AND_WAIT, &json!({}));
    site.waiting_beside_the_engine(1).await;
    let run = site.start().await;
    let step = one_step(&answered(waiter).await);
    let text = site.get("/metrics").await.json.as_str().unwrap().to_owned();
    let claimed = |path: &str| {
        let name = format!("bugle_flow_steps_claimed_total{{path=\"{path}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or_else(|| panic!("{text}"));
        line.parse::<u64>().unwrap()
    };
    assert_eq!(["event", "demand", "poll", "fallback"].map(claimed).iter().sum::<u64>(), 1, "{text}");
    assert!(text.contains("bugle_flow_coordinators 0\n"), "a server runs none: {text}");
    let depth = async |state: &str| {
        let text = site.get("/metrics/queues").await.json.as_str().unwrap().to_owned();
        let name = format!("bugle_flow_queue_steps{{queue=\"steps\",state=\"{state}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&name)).map(|n| n.parse::<u64>().unwrap())
    };
    assert_eq!((depth("running").await, depth("ready").await), (Some(1), Some(0)));
    site.tell("complete", &step, json!({})).await;
    assert_eq!((depth("running").await, depth("ready").await), (Some(0), Some(1)));
    let step = site.step("w").await;
    site.tell("complete", &step, json!({})).await;
    assert_eq!(site.ended(run).await, "succeeded");
}
