//! The state machine is told three times: in the database, in Rust, and in docs/state-machines.md. They must agree.
use crate::fixture::Fixture;
use bugle::jobs::State;
use std::collections::BTreeSet;

const DOCS: &str = include_str!("../../../../docs/state-machines.md");

#[tokio::test]
async fn database_code_and_docs_tell_the_same_state_machine() {
    let f = Fixture::new().await;
    let sql =
        f.db.sql("SELECT cause, coalesce(from_state, ''), coalesce(to_state, '') FROM bugle.move").unwrap();
    let rows: Vec<(String, String, String)> = sqlx::query_as(sql).fetch_all(f.db.pool()).await.unwrap();
    let mut in_database: BTreeSet<_> = rows.into_iter().collect();
    // The claim is counted by the cursor, so it has no row there.
    in_database.insert(("claim".into(), "ready".into(), "leased".into()));

    let in_docs: BTreeSet<_> = DOCS
        .lines()
        .skip_while(|line| !line.starts_with("| cause | from | to |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let mut cells = line.trim_matches('|').split('|').map(|c| c.trim().trim_matches('`').to_owned());
            (cells.next().unwrap(), cells.next().unwrap(), cells.next().unwrap())
        })
        .collect();
    assert_eq!(in_database, in_docs);

    let named: BTreeSet<_> =
        in_docs.iter().flat_map(|(_, from, to)| [from, to]).filter(|s| !s.is_empty()).cloned().collect();
    let in_code: BTreeSet<_> = State::ALL.iter().map(|s| s.as_str().to_owned()).collect();
    assert_eq!(named, in_code);
    for state in State::ALL {
        assert_eq!(state.as_str().parse::<State>().unwrap(), state);
    }
}
