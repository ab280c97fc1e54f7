//! What is said about a definition that cannot be one.

use super::*;
use crate::jobs::Backoff;

/// What is wrong with the text of `all_faults_are_told_at_once_in_the_order_of_the_file`.
pub(super) const FAULTS_OF_MANY: [&str; 16] = [
    "line 1, column 7: the definition's name is empty; use 1 to 255 bytes without control characters",
    "line 2, column 10: version is 0; use 1 to 2147483647, or leave it out for the next one",
    "line 3, column 1: a definition has no field \"colour\"; it may have name, version, description, identity, deadline, steps",
    "line 4, column 11: identity is \"unique\"; write one of strict, key, always_new",
    "line 5, column 11: deadline is \"soon\", which is no length of time; write a number with its unit, such as 250ms, 30s, 5m, 2h or 7d",
    "line 8, column 12: step \"pay\": after names \"reserv\", and there is no such step; did you mean \"reserve\"?",
    "line 9, column 15: step \"pay\": priority is 7; use 0 (first) to 3 (last)",
    "line 10, column 24: step \"pay\": attempts is 0; use 1 to 1000",
    "line 10, column 27: step \"pay\": retry has no field \"backof\"; did you mean \"backoff\"?",
    "line 12, column 13: step \"reserve\": waits for itself: reserve → ship → reserve; take one of these edges away",
    "line 15, column 11: step \"ship\": has the same name as the step in line 13; give each step a name of its own",
    "line 16, column 17: step \"ship\": on_failure is \"ignore\"; write one of stop, continue",
    "line 17, column 5: a step has no name; add name: and a name that no other step has",
    "line 17, column 12: sleep is 5, which is no length of time; write a number with its unit, such as 250ms, 30s, 5m, 2h or 7d",
    "line 18, column 11: step \"bad name\": its name contains ' '; use 1 to 100 letters (a to z, A to Z), digits, _, - or .",
    "line 20, column 14: step \"bad name\": timeout is no time at all; use whole milliseconds, at least 1ms and at most 100 years",
];

/// The faults of a text, one a line.
fn faults(yaml: &str) -> Vec<String> {
    let error = Definition::parse_yaml(yaml).expect_err(yaml);
    error.to_string().lines().map(str::to_owned).collect()
}

/// The faults of steps that are written one a line, the first in line 1.
fn step_faults(steps: &[&str]) -> Vec<String> {
    faults(&format!("{{ name: x, steps: [ {} ] }}", steps.join(",\n")))
}

#[test]
fn all_faults_are_told_at_once_in_the_order_of_the_file() {
    let text = "\
name: \"\"
version: 0
colour: red
identity: unique
deadline: soon
steps:
  - name: pay
    after: reserv
    priority: 7
    retry: { attempts: 0, backof: 1s }
  - name: reserve
    after: [ship]
  - name: ship
    after: reserve
  - name: ship
    on_failure: ignore
  - sleep: 5
  - name: bad name
    handler: 5s
    timeout: 0s
";
    let found = faults(text);
    assert_eq!(found, FAULTS_OF_MANY);
}

#[test]
fn every_cycle_is_printed() {
    let steps = [
        "{ name: a, after: c }",
        "{ name: b, after: a }",
        "{ name: c, after: [b, d] }",
        "{ name: d, after: d }",
        "{ name: e }",
    ];
    let found = step_faults(&steps);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("step \"a\": waits for itself: a → b → c → a;"), "{found:?}");
    assert!(found[1].contains("line 4, column 19: step \"d\": waits for itself: d → d;"), "{found:?}");
}

#[test]
fn what_is_said_stays_short_whatever_was_written() {
    // Five hundred cycles of five hundred steps, which share all of them but one.
    let path = (1..500).map(|n| Step::task(format!("p{n}")).after(format!("p{}", n - 1)));
    let closers = (0..500).map(|n| Step::task(format!("x{n}")).after("p499"));
    let first = (0..500).fold(Step::task("p0"), |first, n| first.after(format!("x{n}")));
    let error = Definition::builder("long").step(first).steps(path).steps(closers).build().unwrap_err();
    assert_eq!(error.faults().len(), 500);
    assert!(
        error.to_string().contains("p0 → p1 → p2 → p3 → p4 → p5 → p6 → p7 → p8 → p9 → (482 more) → p492"),
        "{error}"
    );
    // A page for a name, and a thousand faults of the step that has it.
    let page = "n".repeat(100_000);
    let parents: Vec<_> = (0..2_000).map(|n| format!("q{n}")).collect();
    let found = step_faults(&[&format!("{{ name: {page}, after: [{}, {page}x] }}", parents.join(", "))]);
    assert_eq!(found.len(), 1_001);
    assert_eq!(found[1_000], "and 1002 more");
    assert!(found.iter().all(|line| line.len() < 500));
}

/// Steps, and what is said of them.
#[test]
fn what_a_step_may_not_be() {
    let cases: &[(&[&str], &str)] = &[
        (&["{ name: a }", "{ name: b, after: [a, a] }"], "comes after \"a\" twice; keep one edge"),
        (&["{ name: a, decision: d }"], "is a decision, and no step comes after it"),
        (
            &["{ name: a, decision: d }", "{ name: b, after: { step: a, on: failure } }"],
            "comes after the decision \"a\" by on: failure; use on: success",
        ),
        (&["{ name: a, map: { step: b } }"], "map.step is \"b\", and there is no such step"),
        (&["{ name: a, map: { input: items } }"], "the pointer \"items\" does not begin with /"),
        (&["{ name: a, map: { input: /a~b } }"], "a ~ that is neither ~0 nor ~1"),
        (&["{ name: a, map: { input: /x, concurrency: 0 } }"], "concurrency is 0; use 1 to 10000"),
        (&["{ name: a, map: { at: /x } }"], "map does not say over what"),
        (&["{ name: a, map: { input: /x, step: a } }"], "map has both step and input"),
        (&["{ name: a, sleep: 1s, map: { input: /x } }"], "has both map and sleep"),
        (&["{ name: a, sleep: 1s, handler: h }"], "handler means nothing to a sleep"),
        (
            &["{ name: a, sleep: 1s, deadline: 1s }"],
            "deadline means nothing to a sleep, which ends by itself",
        ),
        (
            &["{ name: a, signal: { key: k }, deadline: 1s }"],
            "deadline means nothing to a signal; use its timeout",
        ),
        (&["{ name: a, signal: { key: k, timeout: 1s }, timeout: 1s }"], "has a timeout twice"),
        (&["{ name: a, signal: { timeout: 1s } }"], "signal has no key"),
        (
            &["{ name: a, signal: { key: \"k:{order}\" } }"],
            "contains {order}, which nothing takes the place of; only {run}",
        ),
        (&["{ name: a, decision: d, handler: h }", "{ name: b, after: a }"], "has a handler twice"),
        (
            &["{ name: a, retry: { attempts: 5, backoff: [1s, 2s] } }"],
            "attempts is 5 and backoff lists 2 waits; list 4 waits",
        ),
        (&["{ name: a, retry: { backoff: { base: 2s, max: 1s } } }"], "backoff goes from 2s to 1s"),
        (&["{ name: a, retry: { backoff: { jitter: 2 } } }"], "jitter is 2"),
        (&["{ name: a, timeout: 1us }"], "timeout is 1µs; use whole milliseconds"),
        (&["{ name: a, deadline: 40000d }"], "deadline is 40000d"),
        (&["{ name: a, events: [{ on: success }] }"], "an event has no queue"),
        (
            &["{ name: a, events: [{ on: retry, queue: q }, { on: retry, queue: q }] }"],
            "the event on retry to \"q\" is there twice",
        ),
        (&["{ name: a, queue: \"\" }"], "queue is empty"),
        (&["{ name: a, queue: flow engine }"], "where Bugle does its own part of workflows"),
        (&["{ name: a, after: [[b]] }"], "after is a list of 1; write a text"),
        (&["{ name: a, name: b }"], "the field \"name\" is given twice"),
        (&["[a]"], "a step is a list of 1; write the fields name, handler"),
        (&["{ name: !word a }"], "a value has a YAML tag"),
    ];
    for (steps, said) in cases {
        let found = step_faults(steps);
        assert!(found.len() == 1 && found[0].contains(said), "{steps:?}: {found:#?}");
    }
    let long = format!("{{ name: {} }}", "n".repeat(101));
    assert!(step_faults(&[&long])[0].contains("its name is 101 bytes long"));
    let key = format!("{{ name: a, signal: {{ key: \"{{run}}{}\" }} }}", "k".repeat(230));
    assert!(step_faults(&[&key])[0].contains("266 bytes long with the number of a run in it"));
}

#[test]
fn steps_that_can_never_run_are_named() {
    let cases: &[(&[&str], &str)] = &[
        (
            &["{ name: nap, sleep: 1s }", "{ name: b, after: { step: nap, on: failure } }"],
            "and a sleep never fails",
        ),
        (
            &["{ name: s, signal: { key: k } }", "{ name: b, after: { step: s, on: failure } }"],
            "a signal without a timeout waits for ever",
        ),
        (
            &[
                "{ name: a, on_failure: continue }",
                "{ name: b, after: { step: a, on: failure } }",
                "{ name: c, after: b }",
            ],
            "with on_failure: continue its failure counts as success",
        ),
        (
            &[
                "{ name: a }",
                "{ name: undo, after: { step: a, on: failure } }",
                "{ name: b, after: [a, undo] }",
            ],
            "step \"b\": can never run: \"a\" would have to succeed and to fail in the same run; use join: any",
        ),
        (
            &["{ name: a, sleep: 1s }", "{ name: b, map: { step: a } }"],
            "is a map over the output of \"a\", and a sleep has none",
        ),
        (
            &["{ name: a }", "{ name: b, map: { step: a }, after: { step: a, on: failure } }"],
            "runs only when that has failed",
        ),
    ];
    for (steps, said) in cases {
        let found = step_faults(steps);
        assert!(found.len() == 1 && found[0].contains(said), "{steps:?}: {found:#?}");
    }
    let fine = "{ name: x, steps: [{ name: a }, { name: undo, after: { step: a, on: failure } }, { name: b, after: [a, undo], join: any },
        { name: c, after: [a, { step: undo, on: always }] }, { name: s, signal: { key: k, timeout: 1s } }, { name: d, after: { step: s, on: failure } }] }";
    assert!(Definition::parse_yaml(fine).is_ok());
}

#[test]
fn everything_has_a_limit() {
    let named = |n: usize| format!("{{name: s{n}}}");
    let list =
        |n: usize| format!("{{name: x, steps: [{}]}}", (0..n).map(named).collect::<Vec<_>>().join(","));
    assert_eq!(Definition::parse_yaml(&list(STEPS_MAX)).unwrap().steps().len(), STEPS_MAX);
    assert!(faults(&list(STEPS_MAX + 5))[0].contains("more than 1000 steps"));
    assert!(faults("{name: x, steps: []}")[0].contains("has no steps"));
    assert!(faults("name: x")[0].contains("has no steps"));
    assert!(faults("steps: [{name: a}]")[0].contains("has no name"));
    let long = format!("name: x\n# {}\n", "x".repeat(DEFINITION_BYTES_MAX));
    assert_eq!(faults(&long).len(), 1);
    assert!(faults(&long)[0].contains("1048587 bytes long"));
    let told =
        format!("{{name: x, description: {}, steps: [{{name: a}}]}}", "x".repeat(DESCRIPTION_BYTES_MAX + 1));
    assert!(faults(&told)[0].contains("description is 4001 bytes long"));
    // 101 steps after each of 100 others.
    let roots = (0..100).map(|n| Step::task(format!("r{n}")));
    let leaf =
        |n: usize| (0..100).fold(Step::task(format!("l{n}")), |leaf, root| leaf.after(format!("r{root}")));
    let builder = Definition::builder("wide").steps(roots);
    assert!(builder.clone().steps((0..100).map(leaf)).build().is_ok());
    let error = builder.steps((0..101).map(leaf)).build().unwrap_err();
    assert!(error.to_string().contains("step \"l100\": the definition has 10100 edges"), "{error}");
    // More than fits once everything is written out.
    let events = (0..EVENTS_MAX)
        .fold(Step::task("a"), |step, n| step.event(EventOn::Success, format!("{n}{}", "q".repeat(250))));
    let steps = (0..40).map(|n| {
        (0..EVENTS_MAX).fold(Step::task(format!("s{n}")), |step, e| {
            step.event(EventOn::Retry, format!("{e}{}", "q".repeat(250)))
        })
    });
    let error = Definition::builder("much").step(events).steps(steps).build().unwrap_err();
    assert!(error.to_string().contains("bytes with everything written out"), "{error}");
}

#[test]
fn a_builder_is_held_to_the_same_rules() {
    let error = Definition::builder("x")
        .version(0)
        .step(Step::task("a").after("b").backoff(Backoff::table([1, 2].map(Duration::from_secs))))
        .step(Step::sleep("b", Duration::from_nanos(1)).concurrency(3))
        .build()
        .unwrap_err();
    let said: Vec<_> = error
        .faults()
        .iter()
        .map(|fault| (fault.line, fault.step.as_deref(), fault.fault.as_str()))
        .collect();
    assert_eq!(
        said,
        [
            (None, None, "version is 0"),
            (None, Some("a"), "the table of backoff begins with 1s, the wait before the first attempt"),
            (None, Some("b"), "concurrency means nothing without a list"),
            (None, Some("b"), "sleep is 1ns"),
        ]
    );
    let json = serde_json::to_value(&error.faults()[3]).unwrap();
    let next = "use whole milliseconds, at least 1ms and at most 100 years";
    assert_eq!(json, serde_json::json!({"step": "b", "fault": "sleep is 1ns", "next": next}));
    let whole: crate::Error = error.into();
    assert_eq!(whole.outcome(), crate::Outcome::Refused);
    assert!(whole.to_string().starts_with("definition cannot be used: version is 0; use 1"), "{whole}");
}

#[test]
fn a_canonical_form_that_is_none_is_refused() {
    let mut json =
        Definition::parse_yaml("{ name: x, steps: [{ name: a }, { name: b, after: a }] }").unwrap().to_json();
    json["steps"][1]["after"][0]["no"] = 7.into();
    json["steps"][0]["no"] = 2.into();
    json["steps"][0]["kind"] = "sleep".into();
    let error = Definition::parse_json(&json.to_string()).unwrap_err().to_string();
    for said in ["has the number 2 and is step 1", "refers to step 7", "is of kind \"sleep\" and its fields"]
    {
        assert!(error.contains(said), "{error}");
    }
    json["steps"][0]["colour"] = "red".into();
    let error = Definition::parse_json(&json.to_string()).unwrap_err().to_string();
    assert!(error.starts_with("line 1, column ") && error.contains("unknown field `colour`"), "{error}");
}

#[test]
fn json_is_strict_about_types() {
    let text = "{\n\"name\": 5,\n\"version\": \"3\",\n\"steps\": [{\"name\": \"a\", \"timeout\": 30, \"after\": null}]}";
    let error = Definition::parse_json(text).unwrap_err().to_string();
    let found: Vec<_> = error.lines().collect();
    assert_eq!(found.len(), 3, "{error}");
    assert!(found[0].starts_with("line 2, column 9: name is 5; write a text"), "{error}");
    assert!(
        found[1].starts_with("line 3, column 12: version is \"3\"; write a whole number, without quotes"),
        "{error}"
    );
    assert!(
        found[2].starts_with("line 4, column 36: step \"a\": timeout is 30, which is no length of time"),
        "{error}"
    );
}
