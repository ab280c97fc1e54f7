//! Every promise names tests that exist.
use std::fs;
use std::path::Path;

fn sources(folder: &Path, found: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

/// Everything where tests are written.
fn all_tests(root: &Path, folders: &[impl AsRef<Path>]) -> String {
    let mut code = String::new();
    for folder in folders {
        sources(&root.join(folder), &mut code);
    }
    code
}

#[test]
fn every_test_that_seed_004_asks_for_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_to_string(root.join("docs/jobs.md")).unwrap();
    let code = all_tests(&root, &["crates"]);
    let (_, table) = docs.split_once("| seed 004 | test here |").unwrap();
    let table = table.split("\n\n").next().unwrap();
    let mut named = 0;
    for name in table.split('`').skip(1).step_by(2) {
        assert!(
            code.contains(&format!("fn {name}(")),
            "docs/jobs.md names the test {name}, which does not exist"
        );
        named += 1;
    }
    assert!(named >= 10, "only {named} tests were found in the table");
}

#[test]
fn every_test_that_a_promise_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let promises = fs::read_to_string(root.join("docs/promises.md")).unwrap();
    let folders = ["bugle", "bugle-cli", "bugle-duroxide", "bugle-server", "bugle-testkit"];
    let code = all_tests(&root, &folders.map(|name| format!("crates/{name}/tests")));
    let mut named = 0;
    for line in promises.lines().filter(|line| line.starts_with("Tests: ")) {
        for name in line.split('`').skip(1).step_by(2) {
            // Functions, or rows of the macro that makes the tests of a broken system.
            let there = code.contains(&format!("fn {name}(")) || code.contains(&format!("    {name}: "));
            assert!(there, "docs/promises.md names the test {name}, which does not exist");
            named += 1;
        }
    }
    assert!(named > 20, "the page's form has changed: only {named} tests were found in it");
    for n in 1..=12 {
        assert!(promises.contains(&format!("**P{n} ")), "P{n} is missing");
    }
}
