//! Which steps can never run. In a DAG every step can be reached by its edges, but not every edge can be satisfied.

use super::draft::{DraftKind, DraftStep};
use super::fault::{Faults, Mark};
use super::graph::{Graph, Parent};
use super::node::shorten;
use super::step::{Join, On};

/// What must have become of other steps for one to run: two bits for each, that it succeeded and that it failed.
type Needs = Vec<u64>;

/// Reports steps that no run can reach, and maps whose list can never be there.
pub(super) fn check(steps: &[DraftStep], graph: &Graph, order: &[usize], faults: &mut Faults) {
    let mut needs: Vec<Needs> = vec![Vec::new(); steps.len()];
    for n in order.iter().copied() {
        let parents = &graph.parents[n];
        check_source(&steps[n], parents, steps, faults);
        if parents.is_empty() {
            needs[n] = vec![0; bits(steps.len())];
            continue;
        }
        let found = match steps[n].join {
            Join::All => all(parents, steps, &needs),
            Join::Any => any(parents, steps, &needs),
        };
        needs[n] = found.unwrap_or_else(|(mark, why, next)| {
            faults.add(mark, steps[n].called(), format!("can never run: {why}"), next);
            // Its children are not blamed for it.
            vec![0; bits(steps.len())]
        });
    }
}

/// Why a step can never run, where it says so, and what to do.
type Never = (Mark, String, &'static str);

fn all(parents: &[Parent], steps: &[DraftStep], needs: &[Needs]) -> Result<Needs, Never> {
    let mut sum = vec![0; bits(steps.len())];
    for parent in parents {
        for (word, of_edge) in sum.iter_mut().zip(needs_of(parent, steps, needs)?) {
            *word |= of_edge;
        }
        if let Some(torn) = contradiction(&sum) {
            let name = shorten(steps[torn].called().unwrap_or_default());
            let why = format!("{name:?} would have to succeed and to fail in the same run");
            return Err((parent.mark, why, "use join: any, or take one of the edges away"));
        }
    }
    Ok(sum)
}

fn any(parents: &[Parent], steps: &[DraftStep], needs: &[Needs]) -> Result<Needs, Never> {
    let mut common: Option<Needs> = None;
    let mut never = None;
    for parent in parents {
        match needs_of(parent, steps, needs) {
            Ok(of_edge) => {
                common = Some(match common {
                    Some(common) => common.iter().zip(of_edge).map(|(a, b)| a & b).collect(),
                    None => of_edge,
                });
            }
            Err(why) => never = never.or(Some(why)),
        }
    }
    match (common, never) {
        (Some(common), _) => Ok(common),
        (None, Some(never)) => Err(never),
        (None, None) => Ok(vec![0; bits(steps.len())]),
    }
}

/// What one edge needs; an error if nothing can satisfy it.
fn needs_of(parent: &Parent, steps: &[DraftStep], needs: &[Needs]) -> Result<Needs, Never> {
    let step = &steps[parent.step];
    let failed = match parent.on {
        On::Always => return Ok(vec![0; bits(steps.len())]),
        On::Success => false,
        On::Failure => true,
    };
    if let Some(why) = never_fails(step).filter(|_| failed) {
        let name = shorten(step.called().unwrap_or_default());
        let why = format!("it wants {name:?} to fail, {why}");
        return Err((parent.mark, why, "use on: success or on: always"));
    }
    let mut needs = needs[parent.step].clone();
    // The failure of a step that continues is its success: it contradicts nothing.
    if !step.continues() {
        let bit = parent.step * 2 + usize::from(failed);
        needs[bit / 64] |= 1 << (bit % 64);
    }
    Ok(needs)
}

/// Why a step never fails in the eyes of its children; `None`: it may.
fn never_fails(step: &DraftStep) -> Option<&'static str> {
    match step.kind {
        DraftKind::Sleep(_) => Some("and a sleep never fails"),
        DraftKind::Signal(_) if step.timeout.is_none() => {
            Some("and a signal without a timeout waits for ever")
        }
        _ if step.continues() => Some("and with on_failure: continue its failure counts as success"),
        _ => None,
    }
}

/// A step that has both of its bits.
fn contradiction(needs: &Needs) -> Option<usize> {
    const SUCCEEDED: u64 = 0x5555_5555_5555_5555;
    needs.iter().enumerate().find_map(|(n, word)| {
        let both = word & (word >> 1) & SUCCEEDED;
        let bit = usize::try_from(both.trailing_zeros()).unwrap_or(0);
        (both != 0).then_some(n * 32 + bit / 2)
    })
}

fn bits(steps: usize) -> usize {
    (steps * 2).div_ceil(64)
}

/// The list of a map must be able to exist.
fn check_source(step: &DraftStep, parents: &[Parent], steps: &[DraftStep], faults: &mut Faults) {
    let DraftKind::Map { source: Some(source), .. } = &step.kind else { return };
    let Some(parent) = parents.iter().find(|parent| steps[parent.step].called() == Some(&source.value))
    else {
        return;
    };
    let fault = if matches!(steps[parent.step].kind, DraftKind::Sleep(_)) {
        format!("is a map over the output of {:?}, and a sleep has none", shorten(&source.value))
    } else if parent.on == On::Failure {
        format!(
            "is a map over the output of {:?}, and runs only when that has failed",
            shorten(&source.value)
        )
    } else {
        return;
    };
    faults.add(
        source.mark,
        step.called(),
        fault,
        "map over the output of a step that succeeds before, or over the input",
    );
}
