//! Random definitions: what is written is read again, hashes do not depend on how, and cycles are found.

use super::*;
use crate::Priority;
use crate::jobs::Backoff;
use proptest::collection::vec;
use proptest::prelude::*;

/// What a random step is made of. Parents are steps before it, so that there is no cycle.
#[derive(Debug, Clone)]
struct Seed {
    kind: u8,
    parents: Vec<(usize, u8)>,
    any: bool,
    queue: Option<String>,
    priority: u8,
    retry: u8,
    times: (u64, u64, u64),
    jitter: f64,
    number: u32,
    pointer: String,
    text: String,
    continues: bool,
}

fn seed() -> impl Strategy<Value = Seed> {
    let shape = (0..6_u8, vec((any::<usize>(), 0..6_u8), 0..4), any::<bool>(), any::<bool>());
    let claim = (proptest::option::of("[a-z:#'\"{ é]{1,8}"), 0..4_u8, 0..4_u8);
    let numbers =
        ((1..100_000_000_u64, 1..3_000_000_000_000_u64, 0..10_000_u64), 0.0..=1.0_f64, 1..10_000_u32);
    let texts = ("(/[a-z ~é]{0,3}){0,3}", "[ -z}~é😀]{1,20}");
    (shape, claim, numbers, texts).prop_map(|(shape, claim, numbers, texts)| {
        let (kind, parents, any, continues) = shape;
        let (queue, priority, retry) = claim;
        let (times, jitter, number) = numbers;
        let pointer = texts.0.replace('~', "~0");
        let text = texts.1.replace('{', "<");
        Seed { kind, parents, any, queue, priority, retry, times, jitter, number, pointer, text, continues }
    })
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn step(n: usize, seed: &Seed) -> NewStep {
    let name = format!("s{n}");
    let earlier = |raw: usize| format!("s{}", raw % n.max(1));
    let source = seed.parents.first().filter(|_| n > 0).map(|(raw, _)| earlier(*raw));
    let mut step = match (seed.kind, source) {
        (1, Some(source)) => Step::map_output(name, source, seed.pointer.clone()).concurrency(seed.number),
        (1 | 2, _) => Step::map_input(name, seed.pointer.clone()),
        (3, _) => Step::sleep(name, ms(seed.times.1)),
        (4, _) => Step::signal(name, format!("{{run}}{}", seed.text)).timeout(ms(seed.times.0)),
        _ => Step::task(name).handler(seed.text.clone()).timeout(ms(seed.times.0)),
    };
    if !matches!(seed.kind, 3 | 4) {
        step = step.priority(
            [Priority::Urgent, Priority::High, Priority::Normal, Priority::Low][usize::from(seed.priority)],
        );
        step = step.deadline(ms(seed.times.1));
        if let Some(queue) = &seed.queue {
            step = step.queue(queue.clone()).event(EventOn::Retry, queue.clone());
        }
        let (base, max) = (ms(seed.times.0), ms(seed.times.0 + seed.times.1));
        step = match seed.retry {
            0 => step.attempts(1 + u16::from(seed.priority)),
            1 => step.backoff(Backoff::table([ms(0), base, ms(seed.times.2)])),
            2 => step.backoff(Backoff::Exponential { base, max, jitter: seed.jitter }),
            _ => step,
        };
    }
    if seed.continues && seed.kind != 3 {
        step = step.on_failure(OnFailure::Continue);
    }
    if seed.any {
        step = step.join(Join::Any);
    }
    let mut named = Vec::new();
    for (raw, on) in seed.parents.iter().filter(|_| n > 0) {
        let parent = earlier(*raw);
        if !named.contains(&parent) {
            step =
                step.after_end(parent.clone(), [On::Success, On::Always, On::Success][usize::from(*on % 3)]);
            named.push(parent);
        }
    }
    step
}

/// A definition, as whoever writes it might order its steps.
fn definition() -> impl Strategy<Value = Builder> {
    (vec(seed(), 1..12), "[ -~é\n]{0,20}", 0..3_usize, any::<u32>()).prop_flat_map(
        |(seeds, text, identity, version)| {
            let steps: Vec<_> = seeds.iter().enumerate().map(|(n, seed)| step(n, seed)).collect();
            Just(steps).prop_shuffle().prop_map(move |steps| {
                Definition::builder("random")
                    .description(text.clone())
                    .identity(Identity::ALL[identity])
                    .version(version.clamp(1, VERSION_MAX))
                    .steps(steps)
            })
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(builder in definition()) {
        // A map whose source sleeps is refused, with reason: only that may be wrong with what is made here.
        let built = match builder.build() {
            Ok(built) => built,
            Err(error) => {
                prop_assert!(error.faults().iter().all(|fault| fault.fault.contains("a sleep has none")), "{}", error);
                return Ok(());
            }
        };
        let canonical = built.to_json().to_string();
        for again in [
            Definition::parse_json(&canonical),
            Definition::parse_yaml(&canonical),
            Definition::parse_yaml(&built.to_yaml()),
        ] {
            let again = again.map_err(|error| TestCaseError::fail(format!("{error}\n{}", built.to_yaml())))?;
            prop_assert_eq!(&again, &built);
            prop_assert_eq!(again.hash(), built.hash());
        }
        for (n, step) in built.steps().iter().enumerate() {
            let before = |edge: &Edge| built.steps()[..n].iter().any(|step| step.name == edge.step);
            prop_assert!(step.after.iter().all(before), "{} comes before its parents", step.name);
        }
        let drawing = built.draw();
        prop_assert_eq!(drawing.lines().count(), built.steps().len() + 1);
        prop_assert!(drawing.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn a_graph_is_refused_exactly_when_it_has_a_cycle(edges in vec((0..8_usize, 0..8_usize), 0..14)) {
        let edges: std::collections::BTreeSet<_> = edges.into_iter().collect();
        let steps = (0..8).map(|n| {
            let parents = edges.iter().filter(|(_, child)| *child == n);
            parents.fold(Step::task(format!("s{n}")), |step, (parent, _)| step.after(format!("s{parent}")))
        });
        let result = Definition::builder("graph").steps(steps).build();
        // Closed under "leads to", by brute force.
        let mut leads = edges.clone();
        loop {
            let more: Vec<_> = leads
                .iter()
                .flat_map(|(a, b)| leads.iter().filter(move |(c, _)| b == c).map(move |(_, d)| (*a, *d)))
                .collect();
            let before = leads.len();
            leads.extend(more);
            if leads.len() == before {
                break;
            }
        }
        let on_a_cycle: Vec<_> = (0..8).filter(|n| leads.contains(&(*n, *n))).collect();
        match result {
            Ok(_) => prop_assert!(on_a_cycle.is_empty()),
            Err(error) => {
                prop_assert!(!on_a_cycle.is_empty(), "{}", error);
                let printed = error.to_string();
                for n in on_a_cycle {
                    prop_assert!(printed.contains(&format!("s{n} →")), "s{} in {}", n, printed);
                }
                for fault in error.faults() {
                    let (_, cycle) = fault.fault.split_once(": ").unwrap();
                    let way: Vec<usize> = cycle.split(" → ").map(|name| name[1..].parse().unwrap()).collect();
                    prop_assert!(way.windows(2).all(|edge| edges.contains(&(edge[0], edge[1]))), "{}", cycle);
                }
            }
        }
    }

    /// Whatever a text says, the answer is a definition or faults that lie in the text.
    #[test]
    fn a_damaged_text_is_read_or_explained(
        damage in vec((any::<prop::sample::Index>(), 0..30_usize, "[-:{}\\[\\],#&*!|>'\"%@`? \n\ta-c1]{0,6}"), 0..6),
        as_json in any::<bool>(),
    ) {
        let whole = Definition::parse_yaml(super::tests::ORDER).unwrap();
        let mut text: Vec<char> =
            if as_json { whole.to_json().to_string().chars().collect() } else { super::tests::ORDER.chars().collect() };
        for (at, cut, put) in damage {
            let at = at.index(text.len());
            let end = (at + cut).min(text.len());
            text.splice(at..end, put.chars());
        }
        let text: String = text.into_iter().collect();
        for result in [Definition::parse_yaml(&text), Definition::parse_json(&text)] {
            match result {
                Ok(definition) => prop_assert!(!definition.steps().is_empty()),
                Err(error) => {
                    prop_assert!(!error.faults().is_empty());
                    let lines = text.lines().count() + 1;
                    let lies_in_it = |fault: &Fault| fault.line.is_none_or(|line| (1..=lines).contains(&line));
                    prop_assert!(error.faults().iter().all(lies_in_it), "{}", error);
                    let place = |fault: &Fault| fault.line.zip(fault.column).unwrap_or((usize::MAX, 0));
                    prop_assert!(error.faults().is_sorted_by_key(place), "{}", error);
                }
            }
        }
    }
}
