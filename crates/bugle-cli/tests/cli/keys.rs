//! API keys from the command line.

use super::Site;
use serde_json::json;

#[tokio::test]
async fn a_key_is_made_listed_and_revoked() {
    let site = Site::new().await;
    let made = site.json(&["key", "create", "shop", "--allow", "pop,push:orders.", "--allow", "inspect"]);
    let secret = made["secret"].as_str().unwrap();
    assert!(secret.starts_with("bugle_") && secret.len() == 70, "{secret}");
    assert_eq!(made["scopes"][0], json!({ "queues": "orders.", "rights": ["push", "pop"] }));
    let shown =
        site.run(&["key", "create", "board", "--allow", "inspect", "--expires-in", "90d", "-o", "table"]);
    assert!(
        shown.stdout.starts_with("bugle_") && shown.stdout.contains("not shown again"),
        "{}",
        shown.stdout
    );

    let listed = site.run(&["key", "ls"]).stdout;
    assert!(!listed.contains("bugle_"), "a secret is never listed: {listed}");
    let table = site.run(&["key", "ls", "-o", "table"]).stdout;
    assert!(table.contains("push,pop:orders. inspect") && table.contains("active"), "{table}");

    let twice = site.run(&["key", "create", "shop", "--allow", "push"]);
    assert_eq!(twice.code, 1, "{}", twice.stderr);
    assert!(twice.stderr.contains("API key \"shop\" already"), "{}", twice.stderr);
    assert_eq!(site.json(&["key", "revoke", "shop"])["revoked"], json!(true));
    assert_eq!(site.json(&["key", "ls"])[0]["state"], json!("revoked"));
    let again = site.run(&["key", "revoke", "shop"]);
    assert_eq!(again.code, 4, "{}", again.stderr);
    site.json(&["key", "create", "shop", "--allow", "push"]);
}

#[tokio::test]
async fn a_right_that_is_none_is_named() {
    let site = Site::new().await;
    for bad in ["write", "push,", ":orders"] {
        let ran = site.run(&["key", "create", "k", "--allow", bad]);
        assert_eq!(ran.code, 1, "{bad}");
        assert!(ran.stderr.contains("use push, pop, inspect or admin"), "{bad}: {}", ran.stderr);
    }
    assert_eq!(site.run(&["key", "create", "k"]).code, 1, "a key for nothing is not made");
}
