//! Explores a configuration completely and says what came of it.
use crate::configuration::Configuration;
use crate::properties::WORK_GETS_CLAIMED;
use crate::trace;
use stateright::{Checker, Expectation, HasDiscoveries, Model};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Instant;

/// What was found: the broken promises with their traces, and the witnesses that something happened at all.
struct Outcome {
    broken: Vec<(&'static str, String)>,
    witnessed: BTreeSet<&'static str>,
}

/// Breadth first on one thread: the traces are the shortest there are, and the same every time.
fn explore(world: &Configuration, until: HasDiscoveries) -> Outcome {
    let begun = Instant::now();
    let checker = world.clone().checker().threads(1).finish_when(until).spawn_bfs().join();
    let mut outcome = Outcome { broken: Vec::new(), witnessed: BTreeSet::new() };
    for (name, path) in checker.discoveries() {
        if world.property(name).expectation == Expectation::Sometimes {
            outcome.witnessed.insert(name);
        } else {
            outcome.broken.push((name, trace::describe(world, &path.into_actions())));
        }
    }
    outcome.broken.sort();
    let names: Vec<&str> = outcome.broken.iter().map(|(property, _)| *property).collect();
    eprintln!(
        "{:<70} {:>9} states, depth {:>2}, {:>5.1} s: {}",
        world.title(),
        checker.unique_state_count(),
        checker.max_depth(),
        begun.elapsed().as_secs_f32(),
        if names.is_empty() { "clean".to_owned() } else { format!("broken: {}", names.join(", ")) },
    );
    outcome
}

/// Every promise holds in every state; there was work to lose, and every variation had its part in it.
pub(crate) fn holds(world: &Configuration) {
    let outcome = explore(world, HasDiscoveries::AnyFailures);
    let mut report = String::new();
    for (property, trace) in &outcome.broken {
        let _ = write!(report, "\nbroken: {property}\n{trace}");
    }
    assert!(outcome.broken.is_empty(), "{}: {report}", world.title());
    let variations = world.rules.variations().iter().map(|variation| variation.label());
    for witness in variations.chain([WORK_GETS_CLAIMED]) {
        assert!(outcome.witnessed.contains(witness), "{}: never came to \"{witness}\"", world.title());
    }
}

/// This promise is found broken.
pub(crate) fn breaks(world: &Configuration, promise: &'static str) {
    let outcome = explore(world, HasDiscoveries::AnyOf([promise].into()));
    let found = outcome.broken.iter().find(|(name, _)| *name == promise);
    let (_, trace) = found.unwrap_or_else(|| panic!("{}: still \"{promise}\"", world.title()));
    eprintln!("{trace}");
}
