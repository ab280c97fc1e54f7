//! What one step must be by itself.

use super::check::text_fault;
use super::draft::{DraftKind, DraftStep};
use super::fault::{At, Faults, Mark};
use super::limits::{
    ATTEMPTS_DEFAULT, CONCURRENCY_MAX, EVENTS_MAX, POINTER_BYTES_MAX, QUEUE_DEFAULT, STEP_NAME_BYTES_MAX,
};
use super::node::shorten;
use super::step::{Event, Over, Step, StepKind};
use crate::Priority;
use crate::jobs::{Backoff, ENGINE_QUEUE, TABLE_MAX};
use crate::limits::{ATTEMPTS_MAX, DURATION_MAX, KEY_BYTES_MAX};
use crate::span;
use std::time::Duration;

/// What `{run}` in a signal's key is counted as.
const RUN_BYTES: usize = 36;

/// The step without its edges; `None`: it has faults.
pub(super) fn check(draft: &DraftStep, faults: &mut Faults) -> Option<Step> {
    let mut check = Check { draft, faults };
    // Every check before the first way out: all faults are reported.
    check.name();
    check.strangers();
    let kind = check.kind();
    let (attempts, backoff) = check.retry();
    let timeout = check.length("timeout", draft.timeout.as_ref());
    let deadline = check.length("deadline", draft.deadline.as_ref());
    let (queue, priority, events) = (check.queue(), check.priority(), check.events());
    let kind = kind?;
    let has_handler = kind.handler().is_some();
    Some(Step {
        name: draft.name.as_ref()?.value.clone(),
        kind,
        after: Vec::new(),
        join: draft.join,
        queue,
        priority,
        attempts,
        backoff: has_handler.then_some(backoff),
        timeout: timeout.filter(|_| has_handler),
        deadline,
        on_failure: draft.on_failure.as_ref().map(|on| on.value).unwrap_or_default(),
        events,
    })
}

struct Check<'d, 'f> {
    draft: &'d DraftStep,
    faults: &'f mut Faults,
}

impl Check<'_, '_> {
    fn fault(&mut self, mark: Mark, fault: impl Into<String>, next: impl Into<String>) {
        self.faults.add(mark, self.draft.called(), fault, next);
    }

    fn name(&mut self) {
        let Some(At { value, mark }) = &self.draft.name else { return };
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        let fault = if value.is_empty() {
            "its name is empty".to_owned()
        } else if value.len() > STEP_NAME_BYTES_MAX {
            format!("its name is {} bytes long", value.len())
        } else if let Some(bad) = value.chars().find(|c| !u8::try_from(*c).is_ok_and(legal)) {
            format!("its name contains {bad:?}")
        } else {
            return;
        };
        let next = format!("use 1 to {STEP_NAME_BYTES_MAX} letters (a to z, A to Z), digits, _, - or .");
        self.fault(*mark, fault, next);
    }

    /// What this kind of step has no use for: whoever wrote it expects something that would not happen.
    fn strangers(&mut self) {
        let draft = self.draft;
        let (sleeps, waits) =
            (matches!(draft.kind, DraftKind::Sleep(_)), matches!(draft.kind, DraftKind::Signal(_)));
        if sleeps || waits {
            let what = if sleeps { "a sleep" } else { "a signal" };
            let given = [
                ("handler", draft.handler.as_ref().map(|at| at.mark)),
                ("queue", draft.queue.as_ref().map(|at| at.mark)),
                ("priority", draft.priority.as_ref().map(|at| at.mark)),
                ("attempts", draft.attempts.as_ref().map(|at| at.mark)),
                ("backoff", draft.backoff.as_ref().map(|at| at.mark)),
            ];
            for (field, mark) in given.into_iter().filter_map(|(field, mark)| Some((field, mark?))) {
                let fault = format!("{field} means nothing to {what}, which no worker runs");
                self.fault(mark, fault, "leave it out");
            }
        }
        if let Some(deadline) = draft.deadline.as_ref().filter(|_| waits) {
            self.fault(deadline.mark, "deadline means nothing to a signal", "use its timeout");
        }
        let given = [
            ("timeout", draft.timeout.as_ref().map(|at| at.mark)),
            ("deadline", draft.deadline.as_ref().map(|at| at.mark)),
            ("on_failure", draft.on_failure.as_ref().map(|at| at.mark)),
        ];
        for (field, mark) in given.into_iter().filter_map(|(field, mark)| Some((field, mark?))) {
            if sleeps {
                let fault = format!("{field} means nothing to a sleep, which ends by itself and never fails");
                self.fault(mark, fault, "leave it out");
            }
        }
        let is_map = matches!(draft.kind, DraftKind::Map { .. } | DraftKind::Unread);
        if let Some(concurrency) = draft.concurrency.as_ref().filter(|_| !is_map) {
            self.fault(concurrency.mark, "concurrency means nothing without a list", "use it in a map");
        }
    }

    fn kind(&mut self) -> Option<StepKind> {
        let draft = self.draft;
        let handler = match &draft.handler {
            Some(At { value, mark }) => {
                self.text("handler", value, *mark);
                value.clone()
            }
            None => draft.called().unwrap_or_default().to_owned(),
        };
        match &draft.kind {
            DraftKind::Unread => None,
            DraftKind::Task => Some(StepKind::Task { handler }),
            DraftKind::Decision => Some(StepKind::Decision { handler }),
            DraftKind::Map { source, at } => {
                self.pointer(at);
                let step = source.as_ref().map(|source| source.value.clone());
                let over = Over { step, at: at.value.clone() };
                Some(StepKind::Map { handler, over, concurrency: self.concurrency() })
            }
            DraftKind::Sleep(length) => {
                self.length("sleep", Some(length)).map(|length| StepKind::Sleep { length })
            }
            DraftKind::Signal(key) => {
                self.key(key);
                let timeout = draft.timeout.as_ref().map(|timeout| timeout.value);
                Some(StepKind::Signal { key: key.value.clone(), timeout })
            }
        }
    }

    fn text(&mut self, field: &str, text: &str, mark: Mark) {
        if let Some((fault, next)) = text_fault(text) {
            self.fault(mark, format!("{field} {fault}"), next);
        }
    }

    /// RFC 6901: nothing, or parts that begin with `/`, in which `~` is written `~0` and `/` is written `~1`.
    fn pointer(&mut self, at: &At<String>) {
        let pointer = &at.value;
        let escapes_well = pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        let fault = if !pointer.is_empty() && !pointer.starts_with('/') {
            format!("the pointer {:?} does not begin with /", shorten(pointer))
        } else if !escapes_well {
            format!("the pointer {:?} has a ~ that is neither ~0 nor ~1", shorten(pointer))
        } else if pointer.len() > POINTER_BYTES_MAX || pointer.chars().any(char::is_control) {
            format!(
                "the pointer {:?} is {} bytes long or contains a control character",
                shorten(pointer),
                pointer.len()
            )
        } else {
            return;
        };
        let next = format!(
            "write a JSON pointer such as /items or /order/lines, of at most {POINTER_BYTES_MAX} bytes"
        );
        self.fault(at.mark, fault, next);
    }

    fn concurrency(&mut self) -> Option<u32> {
        let At { value, mark } = self.draft.concurrency.as_ref()?;
        let number = u32::try_from(*value).ok().filter(|number| (1..=CONCURRENCY_MAX).contains(number));
        if number.is_none() {
            let next = format!("use 1 to {CONCURRENCY_MAX}, or leave it out for no limit");
            self.fault(*mark, format!("concurrency is {value}"), next);
        }
        number
    }

    fn key(&mut self, key: &At<String>) {
        self.text("the signal's key", &key.value, key.mark);
        let longest = key.value.replace("{run}", &"r".repeat(RUN_BYTES)).len();
        if key.value.len() <= KEY_BYTES_MAX && longest > KEY_BYTES_MAX {
            let fault = format!("the signal's key is {longest} bytes long with the number of a run in it");
            self.fault(key.mark, fault, format!("make it at most {KEY_BYTES_MAX}"));
        }
        let places = key.value.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
        let is_word = |word: &str| word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
        if let Some((word, _)) = places.into_iter().find(|(word, _)| *word != "run" && is_word(word)) {
            let fault =
                format!("the signal's key contains {{{}}}, which nothing takes the place of", shorten(word));
            self.fault(key.mark, fault, "only {run} is replaced, by the run's number");
        }
    }

    /// A length of time that is longer than nothing.
    fn length(&mut self, field: &str, given: Option<&At<Duration>>) -> Option<Duration> {
        let At { value, mark } = given?;
        if let Some((fault, next)) = span_fault(*value, true) {
            self.fault(*mark, format!("{field} {fault}"), next);
        }
        Some(*value)
    }

    fn queue(&mut self) -> String {
        let Some(At { value, mark }) = &self.draft.queue else { return QUEUE_DEFAULT.to_owned() };
        self.text("queue", value, *mark);
        if value == ENGINE_QUEUE {
            let fault = format!("queue is {value:?}, where Bugle does its own part of workflows");
            self.fault(*mark, fault, "use another name");
        }
        value.clone()
    }

    fn priority(&mut self) -> Priority {
        let Some(At { value, mark }) = &self.draft.priority else { return Priority::default() };
        match value {
            0 => Priority::Urgent,
            1 => Priority::High,
            2 => Priority::Normal,
            3 => Priority::Low,
            _ => {
                self.fault(*mark, format!("priority is {value}"), "use 0 (first) to 3 (last)");
                Priority::default()
            }
        }
    }

    fn retry(&mut self) -> (u16, Backoff) {
        let draft = self.draft;
        let rule = draft.backoff.as_ref().map(|rule| self.backoff(&rule.value, rule.mark));
        let waits = match &rule {
            Some(Backoff::Table(waits)) => Some(waits.len()),
            _ => None,
        };
        let of_table = waits.and_then(|waits| u16::try_from(waits).ok());
        let attempts = match &draft.attempts {
            None => of_table.unwrap_or(ATTEMPTS_DEFAULT),
            Some(At { value, mark }) => {
                let number = u16::try_from(*value).ok().filter(|n| (1..=ATTEMPTS_MAX).contains(n));
                if number.is_none() {
                    self.fault(*mark, format!("attempts is {value}"), format!("use 1 to {ATTEMPTS_MAX}"));
                }
                if let (Some(number), Some(waits)) = (number, waits)
                    && usize::from(number) != waits
                {
                    let fault =
                        format!("attempts is {number} and backoff lists {} waits", waits.saturating_sub(1));
                    let next = format!(
                        "list {} waits, one between each two attempts, or leave attempts out",
                        number - 1
                    );
                    self.fault(*mark, fault, next);
                }
                number.unwrap_or(ATTEMPTS_DEFAULT)
            }
        };
        (attempts, rule.unwrap_or_default())
    }

    /// The rule, with what no text can hold rounded away.
    fn backoff(&mut self, rule: &Backoff, mark: Mark) -> Backoff {
        match rule {
            Backoff::Table(waits) => {
                if let Some((fault, next)) = waits.iter().find_map(|wait| span_fault(*wait, false)) {
                    self.fault(mark, format!("a wait of backoff {fault}"), next);
                }
                if waits.is_empty() || waits.len() > TABLE_MAX {
                    let next = format!("list at most {}, one between each two attempts", TABLE_MAX - 1);
                    self.fault(mark, format!("backoff lists {} waits", waits.len().saturating_sub(1)), next);
                }
                if let Some(first) = waits.first().filter(|first| !first.is_zero()) {
                    let fault = format!(
                        "the table of backoff begins with {first:?}, the wait before the first attempt"
                    );
                    self.fault(mark, fault, "begin it with nought, and let a sleep go before the step");
                }
                rule.clone()
            }
            Backoff::Exponential { base, max, jitter } => {
                for (field, length) in [("base", base), ("max", max)] {
                    if let Some((fault, next)) = span_fault(*length, true) {
                        self.fault(mark, format!("{field} of backoff {fault}"), next);
                    }
                }
                if max < base {
                    let fault = format!("backoff goes from {} to {}", span::exact(*base), span::exact(*max));
                    self.fault(mark, fault, "let max be at least as long as base");
                }
                if !(0.0..=1.0).contains(jitter) {
                    self.fault(
                        mark,
                        format!("jitter is {jitter}"),
                        "use 0 (none of a wait is random) to 1 (all of it)",
                    );
                }
                // More places would not come back as the same number from every database and language.
                Backoff::Exponential { base: *base, max: *max, jitter: (jitter * 1_000.0).round() / 1_000.0 }
            }
        }
    }

    fn events(&mut self) -> Vec<Event> {
        let events = &self.draft.events;
        if let Some(first_too_many) = events.get(EVENTS_MAX) {
            let fault = format!("has {} events", events.len());
            self.fault(first_too_many.mark, fault, format!("use at most {EVENTS_MAX}"));
        }
        for (n, At { value, mark }) in events.iter().take(EVENTS_MAX).enumerate() {
            self.text("queue", &value.queue, *mark);
            if events[..n].iter().any(|other| other.value == *value) {
                let fault = format!(
                    "the event on {} to {:?} is there twice",
                    value.on.as_str(),
                    shorten(&value.queue)
                );
                self.fault(*mark, fault, "keep one of them");
            }
        }
        events.iter().map(|event| event.value.clone()).collect()
    }
}

/// What is wrong with a length of time. The canonical form counts milliseconds.
pub(super) fn span_fault(length: Duration, must_pass: bool) -> Option<(String, &'static str)> {
    let fault = if must_pass && length.is_zero() {
        "is no time at all".to_owned()
    } else if length > DURATION_MAX {
        format!("is {}", span::exact(length))
    } else if !length.subsec_nanos().is_multiple_of(1_000_000) {
        format!("is {length:?}")
    } else {
        return None;
    };
    Some((fault, "use whole milliseconds, at least 1ms and at most 100 years"))
}
