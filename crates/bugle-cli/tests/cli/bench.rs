//! The benchmark works and prints its figures; how high they are is nobody's business here.

use super::{Ran, Site, bugle};
use bugle_testkit::postgres::TestDb;

#[tokio::test]
async fn the_storage_benchmark_prints_a_ratio_for_each_figure() {
    // A database of its own: it works in a schema of a fixed name.
    let db = TestDb::database().await.unwrap();
    let mut command = bugle();
    command.env("BUGLE_DATABASE_URL", db.url());
    command.args(["bench", "storage", "--jobs", "1000", "--rounds", "1", "--batch", "100"]);
    let ran = Ran::of(command);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let figures: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let figures = figures.as_array().unwrap();
    assert_eq!(figures.len(), 2);
    for figure in figures {
        assert!(figure["ratio"].as_f64().unwrap() > 0.0, "{figure}");
    }
}

#[tokio::test]
async fn a_benchmark_of_nothing_is_refused() {
    let site = Site::new().await;
    let ran = site.run(&["bench", "storage", "--jobs", "0"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("at least 1"), "{}", ran.stderr);
}
