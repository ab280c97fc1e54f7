//! Messages from the command line.

use super::Site;
use serde_json::{Value, json};

fn receipts(popped: &Value) -> Vec<&str> {
    popped["messages"].as_array().unwrap().iter().map(|m| m["receipt"].as_str().unwrap()).collect()
}

fn payloads(popped: &Value) -> Vec<Value> {
    popped["messages"].as_array().unwrap().iter().map(|m| m["payload"].clone()).collect()
}

#[tokio::test]
async fn a_message_is_pushed_popped_and_acked() {
    let site = Site::new().await;
    let pushed = site.json(&["push", "orders", r#"{"order": 1}"#, "--partition", "p", "--key", "k"]);
    assert_eq!(pushed["duplicate"], json!(false));
    let again = site.json(&["push", "orders", r#"{"order": 2}"#, "--partition", "p", "--key", "k"]);
    assert_eq!((&again["id"], &again["duplicate"]), (&pushed["id"], &json!(true)));
    let popped = site.json(&["pop", "orders", "--group", "mailer.eu", "--most", "5"]);
    assert_eq!(payloads(&popped), [json!({ "order": 1 })]);
    assert_eq!((&popped["group"], &popped["messages"][0]["key"]), (&json!("mailer.eu"), &json!("k")));
    let nothing = site.run(&["pop", "orders", "--group", "mailer.eu"]);
    assert_eq!(nothing.code, 4, "{}", nothing.stdout);
    let receipt = receipts(&popped)[0].to_owned();
    assert_eq!(site.json(&["ack", &receipt])[0]["result"], json!("acked"));
    assert_eq!(site.run(&["pop", "orders", "--group", "mailer.eu"]).code, 4);
    let table = site.run(&["pop", "orders", "--group", "other", "--auto-ack", "-o", "table"]);
    assert!(
        table.stdout.contains("PARTITION") && table.stdout.contains(r#"{"order": 1}"#),
        "{}",
        table.stdout
    );
    assert_eq!(site.run(&["push", "orders", "7", "-o", "table"]).stdout.trim().len(), 36, "the id alone");
}

#[tokio::test]
async fn a_claim_fails_comes_again_and_is_lost_to_a_late_ack() {
    let site = Site::new().await;
    site.json(&["queue", "create", "q", "--retry-limit", "1"]);
    site.json(&["push", "q", "1"]);
    let first = site.json(&["pop", "q"]);
    let failed = site.json(&["ack", receipts(&first)[0], "--fail", "--error", "no luck"]);
    assert_eq!((&failed[0]["result"], &failed[0]["freed"]), (&json!("retried"), &json!(true)));
    let second = site.json(&["pop", "q"]);
    let late = site.run(&["ack", receipts(&first)[0]]);
    assert_eq!(late.code, 4, "{}", late.stdout);
    assert!(late.stdout.contains("lost"), "{}", late.stdout);
    assert_eq!(site.json(&["ack", receipts(&second)[0], "--release"])[0]["result"], json!("released"));
    let third = site.json(&["pop", "q"]);
    let dead = site.json(&["ack", receipts(&third)[0], "--fail", "--error", "no luck"]);
    assert_eq!(dead[0]["result"], json!("dead"));
    let bad = site.run(&["ack", "7.what"]);
    assert_eq!(bad.code, 1);
    assert!(bad.stderr.contains("receipt is \"7.what\""), "{}", bad.stderr);
    assert_eq!(site.run(&["ack", receipts(&third)[0], "--fail", "--dead"]).code, 1, "one verdict");
}

#[tokio::test]
async fn many_messages_come_from_a_pipe_in_their_order() {
    let site = Site::new().await;
    let lines = (0..1_500).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
    let ran = site.run_with_input(&["push", "q", "--file", "-"], lines.as_bytes());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let pushed: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(pushed["count"], json!(1_500));
    let popped = site.json(&["pop", "q", "--most", "2000", "--auto-ack"]);
    assert_eq!(payloads(&popped), (0..1_500).map(Value::from).collect::<Vec<_>>());
    let bad = site.run_with_input(&["push", "q", "--file", "-"], b"1\n{\n");
    assert_eq!(bad.code, 1);
    assert!(
        bad.stderr.contains("line 2 is no JSON") && bad.stderr.contains("nothing was written before"),
        "{}",
        bad.stderr
    );
    assert_eq!(site.run_with_input(&["push", "q", "--file", "-"], b"\n").code, 4);
}

#[tokio::test]
async fn a_waiting_pop_gets_what_is_pushed() {
    let site = Site::new().await;
    let waiting =
        site.command(&["pop", "q", "--wait", "60s"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    site.json(&["push", "q", "1"]);
    let popped = waiting.wait_with_output().unwrap();
    assert!(popped.status.success());
    let popped: Value = serde_json::from_slice(&popped.stdout).unwrap();
    assert_eq!(payloads(&popped), [json!(1)]);
    let nothing = site.run(&["pop", "q", "--wait", "1ms"]);
    assert_eq!(nothing.code, 4, "{}", nothing.stderr);
}

#[tokio::test]
async fn a_tail_shows_what_is_there_takes_it_from_nobody_and_leaves_no_group() {
    let site = Site::new().await;
    for payload in ["1", "2", "3"] {
        site.json(&["push", "q", payload]);
    }
    let tailed = site.run(&["tail", "q", "--all", "--limit", "2"]);
    assert_eq!(tailed.code, 0, "{}", tailed.stderr);
    let lines: Vec<Value> = tailed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|m| m["payload"].clone()).collect::<Vec<_>>(), [json!(1), json!(2)]);
    let table =
        site.run(&["tail", "q", "--since", "2020-01-01T00:00:00Z", "--limit", "1", "-o", "table"]).stdout;
    assert!(table.contains("Default  1"), "{table}");
    assert_eq!(site.json(&["group", "ls"]), json!([]));
    assert_eq!(payloads(&site.json(&["pop", "q", "--most", "9"])), [json!(1), json!(2), json!(3)]);
}

#[tokio::test]
async fn a_tail_ends_in_good_order_when_it_is_told_to() {
    let site = Site::new().await;
    let mut tail = site.start(&["tail", "q"]);
    super::eventually("its group is there", || site.json(&["group", "ls"]) != json!([]));
    tail.signal(rustix::process::Signal::INT);
    assert_eq!(tail.end(), 0);
    assert_eq!(site.json(&["group", "ls"]), json!([]));
}

#[tokio::test]
async fn queues_of_messages_are_made_shown_cleared_and_removed() {
    let site = Site::new().await;
    let made = site.json(&[
        "queue",
        "create",
        "q",
        "--lease",
        "30s",
        "--retention",
        "7d",
        "--retry-delay",
        "1500ms",
    ]);
    assert_eq!(
        (&made["created"], &made["options"]["retention_seconds"], &made["options"]["retry_delay_ms"]),
        (&json!(true), &json!(604_800), &json!(1_500))
    );
    let twice = site.run(&["queue", "create", "q"]);
    assert!(twice.code == 1 && twice.stderr.contains("add --replace"), "{}", twice.stderr);
    site.json(&["queue", "create", "q", "--messages-max", "2", "--replace"]);
    for payload in ["1", "2"] {
        site.json(&["push", "q", payload, "--partition", "p"]);
    }
    let full = site.run(&["push", "q", "3"]);
    assert!(full.code == 2 && full.stderr.contains("queue \"q\" is full"), "{}", full.stderr);
    let shown = site.json(&["queue", "show", "q"]);
    assert_eq!(
        (
            &shown["holds"],
            &shown["total"],
            &shown["options"]["messages_max"],
            &shown["options"]["lease_seconds"]
        ),
        (&json!("messages"), &json!(2), &json!(2), &Value::Null)
    );
    assert_eq!(shown["parts"].as_array().unwrap().len(), 2);
    let sheet = site.run(&["queue", "show", "q", "-o", "table"]).stdout;
    assert!(sheet.contains("holds      messages") && sheet.contains("messages_max=2"), "{sheet}");
    assert!(site.run(&["queue", "ls", "-o", "table"]).stdout.contains("QUEUE OF MESSAGES"));

    let preview = site.run(&["queue", "clear", "q", "-o", "table"]).stdout;
    assert!(preview.contains("2 messages") && preview.contains("add --yes"), "{preview}");
    assert_eq!(site.json(&["queue", "clear", "q", "--yes"])["done"], json!(true));
    assert_eq!(site.run(&["pop", "q"]).code, 4);
    assert_eq!(site.json(&["queue", "rm", "q"])["done"], json!(false));
    assert_eq!(site.json(&["queue", "rm", "q", "--yes"])["done"], json!(true));
    assert_eq!(site.json(&["queue", "ls"]), json!([]));
}

#[tokio::test]
async fn the_wrong_verb_is_refused_by_name() {
    let site = Site::new().await;
    site.enqueue("jobs", "1");
    site.json(&["push", "messages", "1"]);
    for args in [
        &["push", "jobs", "1"][..],
        &["pop", "jobs", "--wait", "1s"],
        &["queue", "create", "jobs"],
        &["queue", "clear", "jobs", "--yes"],
        &["queue", "rm", "jobs", "--yes"],
        &["group", "ls", "jobs"],
        &["group", "seek", "jobs", "g", "end"],
        &["dlq", "redrive", "jobs", "--yes"],
    ] {
        let ran = site.run(args);
        assert_eq!(ran.code, 1, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("queue \"jobs\" holds jobs"), "{args:?}: {}", ran.stderr);
    }
    for args in [
        &["enqueue", "messages", "k"][..],
        &["queue", "pause", "messages"],
        &["queue", "show", "messages", "--rate", "1ms"],
    ] {
        let ran = site.run(args);
        assert_eq!(ran.code, 1, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("queue \"messages\" holds messages"), "{args:?}: {}", ran.stderr);
    }
    let kinds: Vec<_> =
        site.json(&["queue", "ls"]).as_array().unwrap().iter().map(|q| q["holds"].clone()).collect();
    assert_eq!(kinds, [json!("jobs"), json!("messages")]);
    assert_eq!(site.json(&["queue", "mode", "messages", "polling_only"])["mode"], json!("polling_only"));
}

#[tokio::test]
async fn groups_are_listed_moved_and_deleted() {
    let site = Site::new().await;
    for payload in ["1", "2", "3"] {
        site.json(&["push", "q", payload]);
    }
    site.json(&["pop", "q", "--group", "g", "--auto-ack"]);
    let group = &site.json(&["group", "ls", "q"])[0];
    assert_eq!((&group["name"], &group["lag"], &group["partitions"]), (&json!("g"), &json!(2), &json!(1)));
    let lag = site.json(&["group", "lag", "q", "g"]);
    assert_eq!((&lag[0]["partition"], &lag[0]["lag"]), (&json!("Default"), &json!(2)));
    assert!(site.run(&["group", "lag", "q", "-o", "table"]).stdout.contains("LEASE ENDS"));
    assert_eq!(site.json(&["group", "seek", "q", "g", "beginning"])["lag"], json!(3));
    assert_eq!(site.json(&["group", "seek", "q", "g", "2020-01-01T00:00:00Z"])["lag"], json!(3));
    assert_eq!(site.json(&["group", "seek", "q", "g", "end", "--partition", "Default"])["lag"], json!(0));
    assert_eq!(site.json(&["group", "seek", "q", "g", "beginning"])["lag"], json!(3));
    assert_eq!(site.json(&["group", "seek", "q", "g", "end"])["lag"], json!(0));
    assert_eq!(site.run(&["group", "seek", "q", "g", "soon"]).code, 1);
    assert_eq!(site.run(&["group", "seek", "q", "g", "beginning", "--partition", "Default"]).code, 1);
    assert_eq!(site.run(&["group", "lag", "q", "none"]).code, 4);
    assert_eq!(site.json(&["group", "rm", "q", "g"])["done"], json!(false));
    assert_eq!(site.json(&["group", "rm", "q", "g", "--yes"])["done"], json!(true));
    let gone = site.run(&["group", "rm", "q", "g", "--yes"]);
    assert!(gone.code == 4 && gone.stderr.contains("no group \"g\""), "{}", gone.stderr);
}

#[tokio::test]
async fn dead_letters_are_listed_shown_redriven_and_purged() {
    let site = Site::new().await;
    for payload in ["1", "2", "3"] {
        site.json(&["push", "q", payload, "--key", &format!("k{payload}")]);
        let popped = site.json(&["pop", "q", "--group", "g"]);
        site.json(&["ack", receipts(&popped)[0], "--dead", "--error", "broken"]);
    }
    let listed = site.json(&["dlq", "ls", "q", "--group", "g"]);
    assert_eq!(listed.as_array().unwrap().len(), 3);
    assert_eq!(
        (&listed[0]["key"], &listed[0]["error"], &listed[0]["payload"]),
        (&json!("k3"), &json!("broken"), &json!(3))
    );
    let sheet = site.run(&["dlq", "show", "q", "k2", "-o", "table"]).stdout;
    assert!(sheet.contains("error      broken") && sheet.contains("payload    2"), "{sheet}");
    assert_eq!(site.run(&["dlq", "show", "q", "k9"]).code, 4);

    assert_eq!(site.json(&["dlq", "redrive", "q"])["messages"], json!(3));
    assert_eq!(
        site.json(&["dlq", "redrive", "q", "--key", "k1"]),
        json!({ "act": "redrive", "done": false, "messages": 1 })
    );
    assert_eq!(site.json(&["dlq", "redrive", "q", "--key", "k1", "--yes"])["messages"], json!(1));
    assert_eq!(payloads(&site.json(&["pop", "q", "--group", "g"])), [json!(1)]);
    let told = site.run(&["dlq", "purge", "q", "-o", "table"]).stdout;
    assert!(told.contains("2 would be purged: add --yes"), "{told}");
    assert_eq!(site.json(&["dlq", "purge", "q", "--yes"])["messages"], json!(2));
    assert_eq!(site.run(&["dlq", "purge", "q", "--yes"]).code, 4);
}
