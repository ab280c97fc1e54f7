//! How the workflows of a namespace are run, from the command line.

use super::flow::{DIAMOND, defined, refused};
use super::{Site, eventually};
use serde_json::{Value, json};

/// A site with workflows in the namespaces `default` and `shop`.
async fn two_namespaces() -> Site {
    let site = defined(DIAMOND).await;
    assert_eq!(site.run(&["namespace", "create", "shop"]).code, 0);
    let ran = site.run_with_input(&["flow", "define", "-", "--namespace", "shop"], DIAMOND.as_bytes());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    site
}

/// What holds for each namespace.
fn effective(site: &Site, what: &str) -> Vec<Value> {
    let rows = site.json(&["flow", "settings"]);
    rows.as_array().unwrap().iter().map(|row| row["effective"][what].clone()).collect()
}

#[tokio::test]
async fn modes_are_set_inherited_and_shown() {
    let site = two_namespaces().await;
    let flow = |args: &[&str]| site.json(&[&["flow"], args].concat());
    assert_eq!(flow(&["mode"])["effective"]["mode"], "hybrid");
    let said = flow(&["mode", "shadow", "--poll", "250ms", "--namespace", "shop"]);
    assert_eq!((&said["namespace"], &said["own"]["mode"]), (&json!("shop"), &json!("shadow")));
    assert_eq!(said["effective"]["poll_interval_ms"], 250);
    assert_eq!(effective(&site, "mode"), ["hybrid", "hybrid", "shadow"], "all, default, shop");
    flow(&["mode", "polling_only", "--all"]);
    assert_eq!(effective(&site, "mode"), ["polling_only", "polling_only", "shadow"]);
    let steps = site.json(&["queue", "show", "steps", "--namespace", "shop"]);
    assert_eq!((&steps["mode"], &steps["poll_ms"]), (&json!("shadow"), &json!(250)));
    flow(&["mode", "inherit", "--namespace", "shop"]);
    assert_eq!(effective(&site, "mode"), ["polling_only", "polling_only", "polling_only"]);
    let table = site.run(&["flow", "settings", "-o", "table"]).stdout;
    assert!(table.contains("all others") && table.contains("(polling_only)"), "{table}");
    assert!(table.contains("in brackets: inherited"), "{table}");
    refused(&site, &["flow", "mode", "push"], 1, &["\"push\"", "event_driven_only", "or inherit"]);
    refused(&site, &["flow", "mode", "inherit", "--poll", "1s"], 1, &["--poll is 1s", "leave --poll out"]);
    refused(
        &site,
        &["flow", "mode", "shadow", "--poll", "0s"],
        1,
        &["poll interval", "1 millisecond to 1 day"],
    );
    refused(&site, &["flow", "mode", "shadow", "--namespace", "typo"], 1, &["\"typo\"", "namespace create"]);
}

#[tokio::test]
async fn slots_and_alarms_are_set_inherited_and_refused() {
    let site = two_namespaces().await;
    let shop = ["--namespace", "shop"];
    let set = |args: &[&str]| site.json(&[&["flow", "set"], args].concat());
    set(&["--slots-least", "2", "--slots-most", "8", "--stale-after", "10s", "--all"]);
    let said = set(&[&["--slots-most", "4"][..], &shop].concat());
    assert_eq!((&said["own"]["slots_most"], &said["own"]["slots_least"]), (&json!(4), &Value::Null));
    assert_eq!(said["effective"]["slots_least"], 2);
    assert_eq!(effective(&site, "slots_most"), [8, 8, 4]);
    assert_eq!(effective(&site, "stale_after_ms"), [10_000, 10_000, 10_000]);
    set(&[&["--slots-most", "inherit"][..], &shop].concat());
    set(&["--stale-after", "inherit", "--all"]);
    assert_eq!(effective(&site, "slots_most"), [8, 8, 8]);
    assert_eq!(effective(&site, "stale_after_ms"), [Value::Null, Value::Null, Value::Null]);
    for (args, said) in [
        (&["--slots-most", "0"][..], "use 1 to 1000"),
        (&["--slots-least", "-3"], "use 1 to 1000"),
        (&["--slots-least", "many"], "use 1 to 1000"),
        (&["--stale-after", "5"], "no length of time"),
        (&["--stale-after", "1ms"], "stale_after_ms 100 to 86400000"),
        (&[], "nothing to set"),
    ] {
        refused(&site, &[&["flow", "set"], args].concat(), 1, &[said]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_steps_of_a_namespace_are_paused_and_resumed() {
    let site = two_namespaces().await;
    let steps = |args: &[&str]| site.json(&[&["flow", "steps"], args].concat());
    let said = steps(&["pause", "--namespace", "shop"]);
    assert_eq!(said, json!({ "namespace": "shop", "paused": true, "own": true, "queues_changed": 1 }));
    assert_eq!(steps(&["pause", "--namespace", "shop"])["queues_changed"], 0, "no error");
    assert_eq!(effective(&site, "paused"), [false, false, true]);
    assert_eq!(site.json(&["queue", "show", "steps", "--namespace", "shop"])["paused"], true);
    let crew = super::flow::Crew::new(&site).await;
    let run = super::flow::start(&site, &["order"]);
    eventually("the other namespace goes on", || super::flow::states(&site, &run).contains("d=succeeded"));
    crew.stop().await;
    steps(&["inherit", "--namespace", "shop"]);
    assert_eq!(effective(&site, "paused"), [false, false, false]);
    let told = site.run(&["flow", "steps", "pause", "--all", "-o", "table"]).stdout;
    assert!(told.contains("no step begins") && told.contains("2 queues have changed"), "{told}");
    let told = site.run(&["flow", "steps", "resume", "-o", "table"]).stdout;
    assert_eq!(told, "default: steps begin (1 queue has changed)\n");
    assert_eq!(effective(&site, "paused"), [true, false, true]);
}

#[tokio::test]
async fn a_limit_for_all_nodes_is_set_and_inherited() {
    let site = two_namespaces().await;
    let said = site.json(&["flow", "set", "--steps-most", "1", "--namespace", "shop"]);
    assert_eq!(said["effective"]["steps_most"], 1);
    assert_eq!(effective(&site, "steps_most"), [Value::Null, Value::Null, json!(1)], "all, default, shop");
    site.json(&["flow", "set", "--steps-most", "7", "--all"]);
    site.json(&["flow", "set", "--steps-most", "inherit", "--namespace", "shop"]);
    assert_eq!(effective(&site, "steps_most"), [json!(7), json!(7), json!(7)]);
    let table = site.run(&["flow", "settings", "-o", "table"]).stdout;
    assert!(table.contains("ALL NODES") && table.contains("(7)"), "{table}");
    refused(&site, &["flow", "set", "--steps-most", "0"], 1, &["\"0\" is no number of steps", "1 to 100000"]);
}

#[tokio::test]
async fn rules_for_worker_sets_are_added_listed_and_removed() {
    let site = two_namespaces().await;
    let route = |args: &[&str]| site.json(&[&["flow", "route"], args].concat());
    assert_eq!(route(&[]), json!([]));
    route(&["add", "*", "common"]);
    let rules = route(&["add", "sh*", "fast", "--priority", "1", "--at", "1"]);
    assert_eq!(
        rules,
        json!([
            {"namespace": "sh*", "priority": 1, "queue": "fast"},
            {"namespace": "*", "priority": null, "queue": "common"},
        ])
    );
    assert_eq!(route(&["ls"]), rules);
    let table = site.run(&["flow", "route", "-o", "table"]).stdout;
    assert!(table.contains("0 to 1") && table.contains("any"), "{table}");
    site.json(&["flow", "start", "order", "--namespace", "shop"]);
    let ready = site.json(&["queue", "show", "common", "--namespace", "shop"]);
    assert_eq!(ready["ready"], 1, "its steps have no urgent priority: {ready}");
    assert_eq!(route(&["rm", "1"]).as_array().unwrap().len(), 1);
    refused(&site, &["flow", "route", "rm", "2"], 4, &["there is no rule 2; there are 1"]);
    refused(&site, &["flow", "route", "add", "*", ""], 1, &["queue name is empty"]);
}
