//! Orchestrations that use all that there is, and the proof that each of them went as it is written.

use bugle_duroxide::PostgresProvider;
use duroxide::providers::Provider as _;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Event, EventKind, OrchestrationContext, OrchestrationRegistry, build_child_instance_id,
};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Five activities at once, two sub-orchestrations, timers, and an event from outside.
pub(crate) const WHOLE: &str = "Whole";
/// The event that each of them waits for, from its first turn on.
pub(crate) const WORD: &str = "word";
/// Intentions of a node with a runtime that waits: its dispatchers of turns and of work.
pub(crate) const DISPATCHERS: usize = 8;

const FAN_OUT: u64 = 5;
const NAP: Duration = Duration::from_millis(40);

/// What an orchestration of this name returns.
pub(crate) fn output(instance: &str) -> String {
    format!("{instance}: 0+2+4+6+8, 3+6, go")
}

async fn whole(ctx: OrchestrationContext, name: String) -> Result<String, String> {
    let word = ctx.schedule_wait(WORD);
    let doubled = (0..FAN_OUT).map(|n| ctx.schedule_activity("Double", n.to_string())).collect();
    let doubled: Vec<String> = ctx.join(doubled).await.into_iter().collect::<Result<_, _>>()?;
    let parts = Vec::from(["1", "2"].map(|n| ctx.schedule_sub_orchestration("Part", n)));
    ctx.schedule_timer(NAP).await;
    let parts: Vec<String> = ctx.join(parts).await.into_iter().collect::<Result<_, _>>()?;
    Ok(format!("{name}: {}, {}, {}", doubled.join("+"), parts.join("+"), word.await))
}

async fn part(ctx: OrchestrationContext, n: String) -> Result<String, String> {
    ctx.schedule_timer(NAP).await;
    ctx.schedule_activity("Triple", n).await
}

fn times(factor: u64, n: &str) -> Result<String, String> {
    n.parse::<u64>().map(|n| (n * factor).to_string()).map_err(|error| error.to_string())
}

/// A runtime that knows them. `begun`: the names of those that have had their first turn, some of them several times.
pub(crate) async fn runtime(
    provider: &PostgresProvider,
    begun: &mpsc::UnboundedSender<String>,
    lease: Duration,
) -> Arc<Runtime> {
    let begun = begun.clone();
    let activities = ActivityRegistry::builder()
        .register("Double", move |ctx: ActivityContext, n: String| {
            let _ = begun.send(ctx.instance_id().to_owned());
            async move { times(2, &n) }
        })
        .register("Triple", |_: ActivityContext, n: String| async move { times(3, &n) })
        .build();
    let orchestrations =
        OrchestrationRegistry::builder().register(WHOLE, whole).register("Part", part).build();
    let options = RuntimeOptions {
        orchestration_concurrency: DISPATCHERS / 2,
        worker_concurrency: DISPATCHERS / 2,
        orchestrator_lock_timeout: lease,
        worker_lock_timeout: lease,
        ..RuntimeOptions::default()
    };
    Runtime::start_with_options(Arc::new(provider.clone()), activities, orchestrations, options).await
}

/// Orchestrations that have had their first turn, each once.
pub(crate) struct Begun {
    told: mpsc::UnboundedReceiver<String>,
    known: HashSet<String>,
}

impl Begun {
    pub(crate) fn new() -> (mpsc::UnboundedSender<String>, Self) {
        let (tell, told) = mpsc::unbounded_channel();
        (tell, Self { told, known: HashSet::new() })
    }

    /// The next one; `None`: there is nobody left who could tell.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            let instance = self.told.recv().await?;
            if self.known.insert(instance.clone()) {
                return Some(instance);
            }
        }
    }
}

/// Has this orchestration, with all below it, gone exactly as it is written? When it was completed, in Unix milliseconds.
pub(crate) async fn check(reader: &PostgresProvider, instance: &str) -> u64 {
    let history = reader.read(instance).await.unwrap();
    let completed = check_history(instance, &history, &output(instance));
    let count = |is_one: fn(&EventKind) -> bool| history.iter().filter(|event| is_one(&event.kind)).count();
    assert_eq!(count(|kind| matches!(kind, EventKind::ActivityScheduled { .. })), 5, "{instance}");
    assert_eq!(count(|kind| matches!(kind, EventKind::TimerCreated { .. })), 1, "{instance}");
    assert_eq!(count(|kind| matches!(kind, EventKind::ExternalSubscribed { .. })), 1, "{instance}");
    let parts = history.iter().filter_map(|event| match &event.kind {
        EventKind::SubOrchestrationScheduled { instance, input, .. } => Some((instance, input)),
        _ => None,
    });
    let parts: Vec<_> = parts.collect();
    assert_eq!(parts.len(), 2, "{instance}");
    for (part, n) in parts {
        let part = build_child_instance_id(instance, part);
        check_history(&part, &reader.read(&part).await.unwrap(), &times(3, n).unwrap());
    }
    completed
}

/// No event is missing, whatever was scheduled was completed once, and the last event is this output.
fn check_history(instance: &str, history: &[Event], output: &str) -> u64 {
    let ids: Vec<u64> = history.iter().map(Event::event_id).collect();
    assert!(ids.iter().copied().eq(1..=history.len() as u64), "{instance} has the events {ids:?}");
    for event in history {
        let ends: Vec<&Event> =
            history.iter().filter(|end| end.source_event_id == Some(event.event_id())).collect();
        let as_written = match &event.kind {
            EventKind::ActivityScheduled { .. } => {
                matches!(ends[..], [Event { kind: EventKind::ActivityCompleted { .. }, .. }])
            }
            EventKind::TimerCreated { .. } => {
                matches!(ends[..], [Event { kind: EventKind::TimerFired { .. }, .. }])
            }
            EventKind::SubOrchestrationScheduled { .. } => {
                matches!(ends[..], [Event { kind: EventKind::SubOrchestrationCompleted { .. }, .. }])
            }
            _ => ends.is_empty(),
        };
        assert!(as_written, "{instance}: {event:?} was ended by {ends:?}");
    }
    let last = history.last().expect("it has begun");
    let completed = EventKind::OrchestrationCompleted { output: output.to_owned() };
    assert_eq!(last.kind, completed, "{instance}");
    last.timestamp_ms
}
