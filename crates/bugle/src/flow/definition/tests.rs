//! What a definition may say, and the forms it is written in.

use super::*;
use crate::Priority;
use crate::jobs::Backoff;

/// The example of docs/flow-definitions.md.
pub(super) const ORDER: &str = r#"
name: order
version: 3
identity: key
deadline: 2h
steps:
  - name: reserve
    retry: { attempts: 3, backoff: [1s, 10s] }
  - name: pay
    after: reserve                      # one name, a list, or a list of { step, on }
    handler: charge_card
    timeout: 30s
  - name: notify_each
    map: { step: reserve, at: /items }  # or { input: /items }
    after: [reserve]                    # a map's source step is a parent by itself when it is not listed
  - name: approve
    signal: { key: "approval:{run}", timeout: 7d }
    after: [pay]
  - name: refund
    after: [ { step: pay, on: failure } ]
  - name: wait_a_bit
    sleep: 10s
    after: [approve]
  - name: choose
    decision: pick_carrier
    after: [approve]
  - { name: dhl, after: choose }
  - { name: ups, after: choose }
  - { name: close, after: [dhl, ups], join: any }
"#;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_example_says_what_the_builder_says() {
    let built = Definition::builder("order")
        .version(3)
        .identity(Identity::Key)
        .deadline(7_200 * SECOND)
        .step(Step::task("reserve").attempts(3).backoff(Backoff::table([0, 1, 10].map(Duration::from_secs))))
        .step(Step::task("pay").after("reserve").handler("charge_card").timeout(30 * SECOND))
        .step(Step::map_output("notify_each", "reserve", "/items"))
        .step(Step::signal("approve", "approval:{run}").timeout(7 * 86_400 * SECOND).after("pay"))
        .step(Step::task("refund").after_end("pay", On::Failure))
        .step(Step::sleep("wait_a_bit", 10 * SECOND).after("approve"))
        .step(Step::decision("choose").handler("pick_carrier").after("approve"))
        .steps(["dhl", "ups"].map(|name| Step::task(name).after("choose")))
        .step(Step::task("close").after("ups").after("dhl").join(Join::Any))
        .build()
        .unwrap();
    let read = Definition::parse_yaml(ORDER).unwrap();
    assert_eq!(read, built);
    assert_eq!(read.step("notify_each").unwrap().after, [Edge { step: "reserve".into(), on: On::Success }]);
    assert_eq!(read.step("pay").unwrap().kind, StepKind::Task { handler: "charge_card".into() });
    assert_eq!(read.step("refund").unwrap().priority, Priority::Normal);
    assert_eq!(Definition::parse_yaml(&read.to_yaml()).unwrap(), read);
    assert_eq!(Definition::parse_json(&read.to_json().to_string()).unwrap(), read);
    assert_eq!(Definition::parse_yaml(&read.to_json().to_string()).unwrap(), read);
}

#[test]
fn editors_of_other_systems_may_be_used() {
    let windows = format!("\u{feff}{}", ORDER.replace('\n', "\r\n"));
    assert_eq!(Definition::parse_yaml(&windows).unwrap(), Definition::parse_yaml(ORDER).unwrap());
    let json = format!("\u{feff}{}", Definition::parse_yaml(ORDER).unwrap().to_json());
    assert!(Definition::parse_json(&json).is_ok());
}

#[test]
fn what_repeats_may_be_written_once() {
    let text = "
name: n
steps:
  - { name: a, retry: &often { attempts: 9 } }
  - { name: b, retry: *often }
";
    let definition = Definition::parse_yaml(text).unwrap();
    assert_eq!(definition.step("b").unwrap().attempts, 9);
}

#[test]
fn the_canonical_form_is_what_the_database_reads() {
    let text = "
name: all
steps:
  - { name: late, after: [{ step: first, on: always }], events: { on: retry, queue: audit }, on_failure: continue }
  - name: first
    map: { input: /items, concurrency: 3 }
    queue: mail
    priority: 0
    retry: { attempts: 2 }
    deadline: 1m
  - { name: nap, sleep: 250ms, after: late }
  - { name: heard, signal: { key: k }, after: nap, join: any }
  - { name: tries, after: heard, retry: { backoff: [500ms] }, timeout: 1s }
";
    let backoff = serde_json::json!({"base_s": 1.0, "max_s": 900.0, "jitter": 0.2});
    let expected = serde_json::json!({
        "name": "all",
        "identity": "always_new",
        "steps": [
            {"no": 1, "name": "first", "kind": "map", "handler": "first", "queue": "mail", "priority": 0, "attempts": 2, "backoff": backoff,
             "deadline_ms": 60_000, "on_failure": "stop", "join": "all", "after": [], "over": {"no": null, "at": "/items"}, "concurrency": 3},
            {"no": 2, "name": "late", "kind": "task", "handler": "late", "queue": "steps", "priority": 2, "attempts": 5, "backoff": backoff,
             "on_failure": "continue", "join": "all", "after": [{"no": 1, "on": "always"}], "events": [{"on": "retry", "queue": "audit"}]},
            {"no": 3, "name": "nap", "kind": "sleep", "queue": "steps", "priority": 2, "attempts": 5, "on_failure": "stop", "join": "all",
             "after": [{"no": 2, "on": "success"}], "sleep_ms": 250},
            {"no": 4, "name": "heard", "kind": "signal", "queue": "steps", "priority": 2, "attempts": 5, "on_failure": "stop", "join": "any",
             "after": [{"no": 3, "on": "success"}], "signal": {"key": "k"}},
            {"no": 5, "name": "tries", "kind": "task", "handler": "tries", "queue": "steps", "priority": 2, "attempts": 2,
             "backoff": {"table_s": [0.0, 0.5]}, "timeout_ms": 1_000, "on_failure": "stop", "join": "all", "after": [{"no": 4, "on": "success"}]},
        ],
    });
    let definition = Definition::parse_yaml(text).unwrap();
    assert_eq!(definition.to_json(), expected);
    assert_eq!(Definition::parse_json(&expected.to_string()).unwrap(), definition);
}

#[test]
fn a_hash_is_of_the_meaning_and_not_of_the_text_or_the_version() {
    let one =
        Definition::parse_yaml("{ name: n, steps: [{ name: a }, { name: b }, { name: c, after: [a, b] }] }")
            .unwrap();
    let same = "{\"steps\": [{\"name\": \"a\", \"queue\": \"steps\", \"retry\": {\"attempts\": 5}}, {\"name\": \"b\", \"priority\": 2}, \
        {\"handler\": \"c\", \"after\": [\"b\", {\"step\": \"a\", \"on\": \"success\"}], \"name\": \"c\"}], \"version\": 9, \"name\": \"n\"}";
    let same = Definition::parse_json(same).unwrap();
    assert_eq!(one.hash(), same.hash());
    assert_ne!(one, same, "the version differs");
    let hex = one.hash().map(|byte| format!("{byte:02x}")).concat();
    // Stored hashes must stay what they are: whoever changes the canonical form sees it here.
    assert_eq!(hex, "d584f14c5eb2c7ddd3956559735aaf94eb412759bf91183bccd684ebbc4c0c5f");
    let other =
        Definition::parse_yaml("{ name: n, steps: [{ name: a }, { name: b }, { name: c, after: [a] }] }")
            .unwrap();
    assert_ne!(one.hash(), other.hash());
}

/// What is drawn and said in the documentation is what is drawn and said.
#[test]
fn the_documentation_shows_what_happens() {
    let docs = include_str!("../../../../../docs/flow-definitions.md");
    let blocks: Vec<_> =
        docs.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n')).collect();
    let shown =
        |kind: &str| blocks.iter().filter(|(of, _)| *of == kind).map(|(_, text)| *text).collect::<Vec<_>>();
    let examples = shown("yaml");
    assert_eq!(examples, [ORDER.trim_start()]);
    let texts = shown("text");
    let definition = Definition::parse_yaml(ORDER).unwrap();
    assert_eq!(texts[0], definition.draw());
    let said = super::fault_tests::FAULTS_OF_MANY;
    assert!(texts[1].lines().count() > 5);
    assert!(texts[1].lines().all(|line| said.contains(&line)), "{}", texts[1]);
    // The first and the third step of the canonical form, in the documentation the only two.
    let mut canonical = definition.to_json();
    let steps = canonical["steps"].as_array_mut().unwrap();
    steps.truncate(3);
    steps.remove(1);
    steps[1]["no"] = 2.into();
    let json: Vec<serde_json::Value> =
        shown("json").iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    assert_eq!(json, [canonical]);
}
