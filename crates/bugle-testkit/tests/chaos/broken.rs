//! A system broken on purpose: the same run as the others, one safety less, and the checker must say so.
use crate::place::{Nodes, shared_run};
use bugle_testkit::chaos::broken::Break;
use bugle_testkit::checker::Rule;
use std::time::Duration;

/// Races need luck to show: so many runs may pass before the break counts as not found.
const RUNS_MAX: usize = 20;

/// Red by one of these rules within some seconds of ordinary work.
pub(crate) async fn is_red(safety: Break, rules: &[Rule], run: impl AsyncFn(Break) -> Vec<Rule>) {
    let mut seen = Vec::new();
    for _ in 0..RUNS_MAX {
        let found = run(safety).await;
        if rules.iter().any(|rule| found.contains(rule)) {
            return;
        }
        seen.push(found);
    }
    panic!("{}: wanted one of {rules:?}, found {seen:?}", safety.name);
}

async fn work(safety: Break) -> Vec<Rule> {
    let (db, mut run) = shared_run().await;
    safety.apply(&run.bugle).await.unwrap();
    run.expect_red(Duration::from_secs(2));
    let nodes = Nodes::start(&mut run, db.url(), 3, 4);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    run.finish(nodes.producers, nodes.workers).await.unwrap().broken_rules()
}

macro_rules! breaks {
    ($run:path; $($test:ident: $safety:ident => $($rule:ident)|+;)*) => {
        $(#[tokio::test]
        async fn $test() {
            let rules = [$(bugle_testkit::checker::Rule::$rule),+];
            $crate::broken::is_red(bugle_testkit::chaos::broken::$safety, &rules, $run).await;
        })*
    };
}
pub(crate) use breaks;

breaks! {
    work;
    an_ack_without_proof_is_found: ACK_WITHOUT_PROOF => I6;
    a_claim_without_the_lock_is_found: CLAIM_WITHOUT_THE_LOCK => I4 | I5;
    a_cursor_that_forgets_is_found: CURSOR_WITHOUT_OPEN_TRANSACTIONS => I1;
    an_expiry_that_is_not_counted_is_found: EXPIRY_NOT_COUNTED => I10;
    a_sweep_before_the_end_is_found: SWEEP_BEFORE_THE_END => I5;
    a_sweep_that_loses_is_found: SWEEP_THAT_LOSES => I1;
    a_job_moved_too_early_is_found: DUE_TOO_EARLY => I9;
    an_ack_that_always_says_yes_is_found: ACK_ALWAYS_YES => I6 | I7;
    attempts_without_end_are_found: ATTEMPTS_WITHOUT_END => I11;
    acks_that_are_not_counted_are_found: ACKS_NOT_COUNTED => I14;
}
