//! The worlds in which the rules must hold, in two sizes: short for every day, large for `make chaos`.
use crate::configuration::Configuration;
use crate::state::Budgets;

const NONE: Budgets = Budgets::NONE;
const LET_GO: Budgets = Budgets::LET_GO;

/// `BUGLE_MODEL=large` asks for the large form.
pub(crate) fn is_large() -> bool {
    match std::env::var("BUGLE_MODEL") {
        Ok(size) if size == "large" => true,
        Ok(other) => panic!("BUGLE_MODEL is {other:?}; it may be \"large\" or absent"),
        Err(_) => false,
    }
}

/// The budgets of the size asked for.
fn sized(short: Budgets, large: Budgets) -> Budgets {
    if is_large() { large } else { short }
}

pub(crate) fn two_nodes_woken_from_outside() -> Configuration {
    Configuration::new("2 nodes, heartbeat or local push")
        .producers_may_abort()
        .may(Budgets { wakes: 1, ..LET_GO })
}

pub(crate) fn every_step_alone() -> Configuration {
    Configuration::new("2 nodes, no steps merged")
        .rows(&[(0, 0, 0)])
        .every_step_alone()
        .may(Budgets { wakes: 1, ..LET_GO })
}

pub(crate) fn two_nodes_changing_demand() -> Configuration {
    let world = Configuration::new("2 nodes, changing demand");
    if is_large() {
        world.producers_may_abort().may(Budgets { arrivals: 1, cancellations: 1, ..LET_GO })
    } else {
        world.rows(&[(0, 0, 0)]).may(Budgets { arrivals: 1, cancellations: 1, ..LET_GO })
    }
}

pub(crate) fn two_queues_in_the_bucket() -> Configuration {
    let short = Budgets { arrivals: 1, ..NONE };
    let large = Budgets { arrivals: 1, cancellations: 1, ..LET_GO };
    Configuration::new("2 nodes, 2 queues in the bucket")
        .nodes(&[0, 1])
        .rows(&[(0, 0, 0), (1, 1, 0)])
        .may(sized(short, large))
}

pub(crate) fn two_nodes_and_a_crash() -> Configuration {
    let short = Budgets { crashes: 1, wakes: 1, ..NONE };
    let large = Budgets { arrivals: 1, crashes: 1, wakes: 1, ..LET_GO };
    Configuration::new("2 nodes, a crash").may(sized(short, large))
}

pub(crate) fn a_lost_session() -> Configuration {
    let world = Configuration::new("2 nodes, a lost session").may(Budgets {
        arrivals: 1,
        session_losses: 1,
        ..LET_GO
    });
    if is_large() { world } else { world.rows(&[(0, 0, 0)]) }
}

pub(crate) fn a_burst_given_back() -> Configuration {
    let short = Budgets { abandons: 1, claim_rollbacks: 1, ..LET_GO };
    let large = Budgets { arrivals: 1, cancellations: 1, ..short };
    Configuration::new("2 nodes, 2 rows at once, abandon, claim rolled back")
        .rows(&[(0, 0, 0), (0, 0, 0)])
        .producers_may_abort()
        .may(sized(short, large))
}

/// The claimer's client is gone when its claim fails: nobody but a peer that has looked past the row wants it.
pub(crate) fn a_claim_rolled_back() -> Configuration {
    Configuration::new("2 nodes, claim rolled back, client gone").rows(&[(0, 0, 0)]).may(Budgets {
        cancellations: 1,
        claim_rollbacks: 1,
        ..LET_GO
    })
}

pub(crate) fn future_rows() -> Configuration {
    Configuration::new("2 nodes, future rows, the earlier one written later")
        .rows(&[(0, 0, 1), (1, 0, 2)])
        .clock(2, 0)
        .may(sized(NONE, LET_GO))
}

pub(crate) fn leases_that_end() -> Configuration {
    let world = Configuration::new("2 nodes, leases that end, a crash").clock(2, 1);
    if is_large() {
        world.rows(&[(0, 0, 0), (1, 0, 1)]).may(Budgets { crashes: 1, wakes: 1, ..LET_GO })
    } else {
        world.rows(&[(0, 0, 0)]).may(Budgets { crashes: 1, ..NONE })
    }
}

pub(crate) fn three_nodes() -> Configuration {
    let world = Configuration::new("3 nodes").nodes(&[0, 0, 0]).may(LET_GO);
    if is_large() { world } else { world.rows(&[(0, 0, 0)]) }
}

pub(crate) fn three_nodes_and_a_crash() -> Configuration {
    let short = Budgets { crashes: 1, ..NONE };
    let large = Budgets { wakes: 1, ..short };
    Configuration::new("3 nodes, a crash").nodes(&[0, 0, 0]).rows(&[(0, 0, 0)]).may(sized(short, large))
}

pub(crate) fn three_nodes_two_queues() -> Configuration {
    let short = Budgets { cancellations: 1, ..NONE };
    let large = Budgets { lettings_go: 1, ..short };
    Configuration::new("3 nodes, 2 queues in the bucket")
        .nodes(&[0, 1, 0])
        .rows(&[(0, 1, 0)])
        .may(sized(short, large))
}

pub(crate) fn three_nodes_and_a_burst() -> Configuration {
    Configuration::new("3 nodes, 2 rows at once")
        .nodes(&[0, 0, 0])
        .rows(&[(0, 0, 0), (0, 0, 0)])
        .may(sized(NONE, LET_GO))
}
