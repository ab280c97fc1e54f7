//! What makes a draft a definition.

use super::canonical::Canonical;
use super::check_step::{self, span_fault};
use super::draft::{Draft, DraftStep};
use super::fault::{At, Error, Faults};
use super::graph::Graph;
use super::limits::{DEFINITION_BYTES_MAX, DESCRIPTION_BYTES_MAX, STEPS_MAX, VERSION_MAX};
use super::node::shorten;
use super::step::{Edge, Step};
use super::{Definition, reach};
use crate::name::Kind;
use sha2::{Digest as _, Sha256};

/// Checks everything, and reports every fault.
pub(super) fn check(draft: &Draft, mut faults: Faults) -> Result<Definition, Error> {
    let head = head(draft, &mut faults);
    let steps = draft.steps.as_deref().unwrap_or_default();
    count(draft, steps, &mut faults);
    if steps.len() > STEPS_MAX {
        return Err(faults.into_error());
    }
    let checked: Vec<_> = steps.iter().map(|step| check_step::check(step, &mut faults)).collect();
    let graph = Graph::link(steps, &mut faults);
    let order = graph.order(steps, &mut faults);
    if let Some(order) = &order {
        reach::check(steps, &graph, order, &mut faults);
    }
    match (order, checked.into_iter().collect::<Option<Vec<_>>>()) {
        (Some(order), Some(checked)) if faults.is_empty() => {
            finish(Definition { steps: arrange(checked, &graph, &order), ..head }, draft, faults)
        }
        _ => Err(faults.into_error()),
    }
}

/// The definition without its steps.
fn head(draft: &Draft, faults: &mut Faults) -> Definition {
    if let Some(At { value, mark }) = &draft.name
        && let Some((fault, next)) = text_fault(value)
    {
        faults.add(*mark, None, format!("the definition's name {fault}"), next);
    }
    let version = draft.version.as_ref().map(|version| {
        let number = u32::try_from(version.value).ok().filter(|number| (1..=VERSION_MAX).contains(number));
        number.unwrap_or_else(|| {
            let fault = format!("version is {}", version.value);
            let next = format!("use 1 to {VERSION_MAX}, or leave it out for the next one");
            faults.add(version.mark, None, fault, next);
            0
        })
    });
    if let Some(At { value, mark }) = &draft.description {
        if value.len() > DESCRIPTION_BYTES_MAX {
            let fault = format!("description is {} bytes long: {:?}", value.len(), shorten(value));
            faults.add(*mark, None, fault, format!("use at most {DESCRIPTION_BYTES_MAX}"));
        }
        if let Some(bad) = value.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r')) {
            let fault = format!("description contains the control character {bad:?}");
            faults.add(*mark, None, fault, "leave it out");
        }
    }
    if let Some(At { value, mark }) = &draft.deadline
        && let Some((fault, next)) = span_fault(*value, true)
    {
        faults.add(*mark, None, format!("deadline {fault}"), next);
    }
    Definition {
        name: draft.name.as_ref().map(|name| name.value.clone()).unwrap_or_default(),
        version,
        description: draft.description.as_ref().map(|text| text.value.clone()),
        identity: draft.identity,
        deadline: draft.deadline.as_ref().map(|length| length.value),
        steps: Vec::new(),
        json: serde_json::Value::Null,
        hash: [0; 32],
    }
}

fn count(draft: &Draft, steps: &[DraftStep], faults: &mut Faults) {
    if draft.steps.is_some() && steps.is_empty() {
        faults.add(draft.mark, None, "the definition has no steps", "add at least one");
    }
    if let Some(first_too_many) = steps.get(STEPS_MAX) {
        let fault = format!("the definition has more than {STEPS_MAX} steps");
        let next = "use a map for many steps of the same kind, or several definitions";
        faults.add(first_too_many.mark, first_too_many.called(), fault, next);
    }
}

/// The steps in their order, each with its edges in the order of its parents.
fn arrange(checked: Vec<Step>, graph: &Graph, order: &[usize]) -> Vec<Step> {
    let mut numbers = vec![0; checked.len()];
    for (number, step) in order.iter().enumerate() {
        numbers[*step] = number;
    }
    let names: Vec<_> = checked.iter().map(|step| step.name.clone()).collect();
    let mut steps: Vec<_> = checked.into_iter().map(Some).collect();
    let take = |step: &usize| {
        let mut arranged = steps[*step].take()?;
        let mut parents = graph.parents[*step].clone();
        parents.sort_by_key(|parent| numbers[parent.step]);
        let edge = |parent: super::graph::Parent| Edge { step: names[parent.step].clone(), on: parent.on };
        arranged.after = parents.into_iter().map(edge).collect();
        Some(arranged)
    };
    order.iter().filter_map(take).collect()
}

/// Adds the canonical form and its hash, which need everything else.
fn finish(mut definition: Definition, draft: &Draft, mut faults: Faults) -> Result<Definition, Error> {
    let mut canonical = Canonical::of(&definition);
    let json = serde_json::to_value(&canonical);
    canonical.version = None;
    let text = serde_json::to_string(&canonical);
    match (json, text) {
        (Ok(json), Ok(text)) if text.len() <= DEFINITION_BYTES_MAX => {
            definition.json = json;
            definition.hash = Sha256::digest(text).into();
            return Ok(definition);
        }
        (Err(error), _) | (_, Err(error)) => {
            let next = "this is a mistake in Bugle, please report it";
            faults.add(draft.mark, None, format!("the definition cannot be written: {error}"), next);
        }
        (Ok(_), Ok(text)) => {
            let fault = format!("the definition takes {} bytes with everything written out", text.len());
            let next = format!("make it at most {DEFINITION_BYTES_MAX}: use fewer steps, or shorter texts");
            faults.add(draft.mark, None, fault, next);
        }
    }
    Err(faults.into_error())
}

/// What is wrong with a text that must be 1 to 255 bytes long and printable. Kinds of jobs are such texts.
pub(super) fn text_fault(text: &str) -> Option<(String, &'static str)> {
    match Kind::parse(text) {
        Err(crate::Error::Invalid { fault, next, .. }) => Some((fault, next)),
        _ => None,
    }
}
