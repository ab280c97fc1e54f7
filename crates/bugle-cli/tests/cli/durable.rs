//! Orchestrations of a runtime that really runs: listed, shown, cancelled, told of events, deleted.

use super::{Ran, Site};
use bugle_duroxide::PostgresProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Nothing here takes so long, on the slowest machine.
const SOON: Duration = Duration::from_secs(30);

/// A runtime in the schema of a site, and the command on it.
struct Stage {
    site: Site,
    client: Client,
    runtime: Arc<Runtime>,
}

impl Stage {
    async fn new() -> Self {
        let site = Site::new().await;
        let provider = PostgresProvider::new_with_long_poll_and_schema(site.db.url(), Some(site.db.name()))
            .await
            .unwrap();
        let provider = Arc::new(provider);
        let runtime = Runtime::start_with_store(provider.clone(), activities(), orchestrations()).await;
        Self { site, client: Client::new(provider), runtime }
    }

    fn run(&self, args: &[&str]) -> Ran {
        let schema = ["--durable-schema", self.site.db.name()];
        self.site.run(&[&["durable"], args, &schema].concat())
    }

    fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "bugle durable {args:?}: {}", ran.stderr);
        serde_json::from_str(&ran.stdout).unwrap()
    }

    async fn start(&self, id: &str, orchestration: &str) {
        self.client.start_orchestration(id, orchestration, "").await.unwrap();
    }

    /// Starts it and waits for its end.
    async fn finish(&self, id: &str, orchestration: &str) {
        self.start(id, orchestration).await;
        self.end(id).await.ok();
    }

    /// How it ended: what it returned, or why it failed.
    async fn end(&self, id: &str) -> Result<String, String> {
        match self.client.wait_for_orchestration(id, SOON).await.unwrap() {
            OrchestrationStatus::Completed { output, .. } => Ok(output),
            OrchestrationStatus::Failed { details, .. } => Err(details.display_message()),
            other => panic!("{id}: {other:?}"),
        }
    }

    /// Starts it, and returns when it waits for something.
    async fn park(&self, id: &str, orchestration: &str) {
        self.start(id, orchestration).await;
        self.waits(id).await;
    }

    async fn waits(&self, id: &str) {
        let parked = |events: Vec<duroxide::Event>| events.len() > 2;
        while !self.client.read_execution_history(id, 1).await.is_ok_and(parked) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn ids(&self, args: &[&str]) -> Vec<String> {
        let rows = self.json(&[&["ls"], args].concat());
        let mut ids: Vec<_> =
            rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    }

    async fn close(self) {
        self.runtime.shutdown(None).await;
    }
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Greet", |_: ActivityContext, name: String| async move { Ok(format!("Hello, {name}")) })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Hello", |ctx: OrchestrationContext, name: String| async move {
            ctx.schedule_activity("Greet", name).await
        })
        .register("Fail", |_: OrchestrationContext, _: String| async move { Err("no car left".to_owned()) })
        .register("Wait", |ctx: OrchestrationContext, _: String| async move {
            ctx.set_custom_status("at the door");
            Ok(ctx.schedule_wait("go").await)
        })
        .register("Take", |ctx: OrchestrationContext, _: String| async move {
            ctx.set_custom_status("at the counter");
            Ok(ctx.dequeue_event("lines").await)
        })
        .register("Parent", |ctx: OrchestrationContext, _: String| async move {
            let id = format!("{}-child", ctx.instance_id());
            ctx.set_custom_status("has a child");
            ctx.schedule_sub_orchestration_with_id("Wait", id, "").await
        })
        .register("Twice", |ctx: OrchestrationContext, round: String| async move {
            if round.is_empty() { ctx.continue_as_new("second").await } else { Ok(round) }
        })
        .build()
}

#[tokio::test]
async fn instances_are_listed_by_status_and_name() {
    let stage = Stage::new().await;
    stage.finish("hello-1", "Hello").await;
    stage.finish("fail-1", "Fail").await;
    stage.park("wait-1", "Wait").await;
    assert_eq!(stage.ids(&[]), ["fail-1", "hello-1", "wait-1"]);
    assert_eq!(stage.ids(&["--status", "running"]), ["wait-1"]);
    assert_eq!(stage.ids(&["--status", "Failed"]), ["fail-1"]);
    assert_eq!(stage.ids(&["--name", "Hello"]), ["hello-1"]);
    assert_eq!(stage.ids(&["--name", "Hello", "--status", "failed"]), Vec::<String>::new());
    assert_eq!(stage.json(&["ls", "--limit", "1"])[0]["id"], "wait-1", "the newest first");
    let row = &stage.json(&["ls", "--name", "Wait"])[0];
    assert_eq!(
        (&row["status"], &row["custom_status"], &row["ended_at"]),
        (&json!("Running"), &json!("at the door"), &Value::Null)
    );
    let table = stage.run(&["ls", "-o", "table"]).stdout;
    assert!(table.contains("ORCHESTRATION") && table.contains("at the door"), "{table}");
    stage.close().await;
}

#[tokio::test]
async fn an_instance_is_shown_with_what_it_waits_for_and_those_below_it() {
    let stage = Stage::new().await;
    stage.park("parent-1", "Parent").await;
    stage.waits("parent-1-child").await;
    let parent = stage.json(&["show", "parent-1"]);
    assert_eq!(parent["waits_for"][0]["kind"], "instance");
    assert_eq!((&parent["below"], &parent["tree"][0]["id"]), (&json!(1), &json!("parent-1-child")));
    assert_eq!(parent["events"]["SubOrchestrationScheduled"], 1);
    assert!(parent["history"].is_null());
    let child = stage.json(&["show", "parent-1-child", "--history"]);
    assert_eq!(child["parent"], "parent-1");
    assert_eq!(
        (&child["waits_for"][0]["kind"], &child["waits_for"][0]["name"]),
        (&json!("event"), &json!("go"))
    );
    assert_eq!(child["history"][0]["type"], "OrchestrationStarted");
    let sheet = stage.run(&["show", "parent-1-child", "-o", "table"]).stdout;
    assert!(sheet.contains("waits for  event go") && sheet.contains("says       at the door"), "{sheet}");

    stage.finish("twice-1", "Twice").await;
    let twice = stage.json(&["show", "twice-1"]);
    assert_eq!((&twice["output"], &twice["execution"]), (&json!("second"), &json!(2)));
    assert_eq!(twice["executions"].as_array().unwrap().len(), 2);
    assert_eq!(twice["waits_for"], json!([]));

    let nobody = stage.run(&["show", "nobody"]);
    assert_eq!(nobody.code, 4);
    assert!(
        nobody.stderr.contains("\"nobody\"") && nobody.stderr.contains("bugle durable ls"),
        "{}",
        nobody.stderr
    );
    stage.close().await;
}

#[tokio::test]
async fn a_cancelled_instance_ends_with_the_reason() {
    let stage = Stage::new().await;
    stage.park("parent-1", "Parent").await;
    stage.waits("parent-1-child").await;
    let told = stage.json(&["cancel", "parent-1", "--reason", "closed for winter"]);
    assert_eq!((&told[0]["was"], &told[0]["changed"]), (&json!("Running"), &json!(true)));
    let why = stage.end("parent-1").await.unwrap_err();
    assert!(why.contains("closed for winter"), "{why}");
    assert!(stage.end("parent-1-child").await.is_err(), "those below it end as well");
    let again = stage.run(&["cancel", "parent-1", "nobody", "-o", "table"]);
    assert_eq!(again.code, 4);
    assert!(
        again.stdout.contains("has ended already") && again.stdout.contains("no such instance"),
        "{}",
        again.stdout
    );
    stage.close().await;
}

#[tokio::test]
async fn a_raised_event_reaches_who_waits_for_it() {
    let stage = Stage::new().await;
    stage.park("wait-1", "Wait").await;
    let other = stage.run(&["raise", "wait-1", "stop", "-o", "table"]);
    assert!(other.code == 0 && other.stdout.contains("does not wait for it"), "{}", other.stdout);
    let raised = stage.json(&["raise", "wait-1", "go", "{\"by\": \"Ada\"}"]);
    assert_eq!(raised["was_waited_for"], json!(true));
    assert_eq!(stage.end("wait-1").await.unwrap(), "{\"by\": \"Ada\"}", "as it was given");
    let late = stage.run(&["raise", "wait-1", "go"]);
    assert_eq!(late.code, 4);
    assert!(late.stderr.contains("has ended (Completed)"), "{}", late.stderr);
    assert_eq!(stage.run(&["raise", "nobody", "go"]).code, 4);

    stage.park("take-1", "Take").await;
    let schema = stage.site.db.name();
    let args = ["durable", "raise", "take-1", "lines", "-", "--queue", "--durable-schema", schema];
    let piped = stage.site.run_with_input(&args, b"from a pipe");
    assert_eq!(piped.code, 0, "{}", piped.stderr);
    assert_eq!(stage.end("take-1").await.unwrap(), "from a pipe");
    stage.close().await;
}

#[tokio::test]
async fn a_purge_shows_what_it_would_do_and_does_it_when_told() {
    let stage = Stage::new().await;
    for id in ["hello-1", "hello-2"] {
        stage.finish(id, "Hello").await;
    }
    stage.finish("fail-1", "Fail").await;
    stage.park("wait-1", "Wait").await;
    stage.park("parent-1", "Parent").await;
    stage.waits("parent-1-child").await;
    stage.client.raise_event("parent-1-child", "go", "done").await.unwrap();
    stage.end("parent-1").await.unwrap();

    let preview = stage.json(&["purge"]);
    assert_eq!((&preview["done"], &preview["instances"]), (&json!(false), &json!(5)));
    let groups: Vec<_> = preview["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|g| {
            (
                g["orchestration"].as_str().unwrap(),
                g["roots"].as_u64().unwrap(),
                g["instances"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(groups, [("Hello", 2, 2), ("Parent", 1, 2), ("Fail", 1, 1)]);
    assert_eq!(stage.ids(&[]).len(), 6, "nothing was done");
    let table = stage.run(&["purge", "-o", "table"]).stdout;
    assert!(table.contains("5 would be purged: add --yes"), "{table}");

    assert_eq!(stage.json(&["purge", "--status", "completed", "--name", "Hello", "--yes"])["instances"], 2);
    assert_eq!(stage.json(&["purge", "--id", "parent-1", "--yes"])["instances"], 2, "with its child");
    assert_eq!(stage.ids(&[]), ["fail-1", "wait-1"]);
    let young = stage.run(&["purge", "--older-than", "1d", "--yes", "-o", "table"]);
    assert_eq!(young.code, 4);
    assert_eq!(
        young.stdout,
        "nothing to purge: there are no instances without a parent that have ended at least 24h ago\n"
    );
    assert!(stage.run(&["purge", "--yes", "-o", "table"]).stdout.starts_with("1 purged, with "));
    assert_eq!(stage.run(&["purge", "--yes"]).code, 4, "those that run are left");
    assert_eq!(stage.ids(&[]), ["wait-1"]);
    let running = stage.run(&["purge", "--status", "running"]);
    assert!(running.code == 1 && running.stderr.contains("bugle durable cancel"), "{}", running.stderr);
    stage.close().await;
}

#[tokio::test]
async fn stats_count_instances_and_what_waits_and_list_the_nodes_that_listen() {
    let stage = Stage::new().await;
    stage.finish("hello-1", "Hello").await;
    stage.park("wait-1", "Wait").await;
    super::eventually("the runtime sleeps", || {
        let nodes = stage.json(&["stats"])["nodes"].clone();
        nodes.as_array().unwrap().iter().any(|node| !node["sentinel"].as_array().unwrap().is_empty())
    });
    let stats = stage.json(&["stats"]);
    assert_eq!(stats["instances"], json!({"running": 1, "completed": 1, "failed": 0, "continued_as_new": 0}));
    assert_eq!(stats["work"], json!({"ready": 0, "leased": 0, "later": 0, "oldest_ms": null}));
    stage.runtime.clone().shutdown(None).await; // nobody takes what comes now
    stage.start("ready-1", "Hello").await;
    let stats = stage.json(&["stats"]);
    assert_eq!((&stats["turns"]["ready"], &stats["messages"]), (&json!(1), &json!(1)));
    assert!(stats["turns"]["oldest_ms"].is_u64());
    let table = stage.run(&["stats", "-o", "table"]).stdout;
    assert!(
        table.starts_with("instances  1 running, 1 completed, 0 failed\nmessages   1\nsessions   0\n\n"),
        "{table}"
    );
    assert!(table.contains("OLDEST") && table.contains("turns"), "{table}");
}

#[tokio::test]
async fn a_schema_without_the_providers_tables_is_named_and_left_alone() {
    let site = Site::new().await;
    let schema = site.db.name();
    let ran = site.run(&["durable", "ls", "--durable-schema", schema, "--json"]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    let sentence = error["error"].as_str().unwrap();
    assert!(sentence.contains(schema) && sentence.contains("--durable-schema"), "{sentence}");
    let made: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_tables WHERE schemaname = $1")
        .bind(schema)
        .fetch_one(site.db.pool())
        .await
        .unwrap();
    assert_eq!(made, 0, "looking makes nothing");
    let bad = site.run(&["durable", "ls", "--durable-schema", "No Schema"]);
    assert_eq!(bad.code, 1, "{}", bad.stderr);
}
