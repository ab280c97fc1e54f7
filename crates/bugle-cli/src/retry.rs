//! Retry rules as people write them: `exponential:1s..15m`, `table:0s,30s,5m`, `never`.

use crate::span;
use bugle::jobs::Backoff;
use std::time::Duration;

/// What a rule looks like.
const GRAMMAR: &str = "write exponential:BASE..MAX, such as exponential:1s..15m,jitter=0.2; or table:WAIT,WAIT,..., such as table:0s,30s,5m; or never";

/// Most waits of a table, as many as a job's own may have.
const WAITS_MAX: usize = 100;

/// Reads the rule by which a worker tries failed jobs again.
pub(crate) fn parse(text: &str) -> Result<Backoff, String> {
    match parse_own(text)? {
        Backoff::Table(waits) if waits.first().is_some_and(|first| !first.is_zero()) => Err(format!(
            "the table begins with {:?}, the wait before the first attempt, which only an enqueue can set; begin with 0s, and use bugle enqueue --retry or --delay",
            waits[0]
        )),
        rule => Ok(rule),
    }
}

/// Reads the rule of a job's own.
pub(crate) fn parse_own(text: &str) -> Result<Backoff, String> {
    match text.split_once(':') {
        Some(("exponential", rest)) => exponential(rest),
        Some(("table", rest)) => table(rest),
        None if text == "never" => Ok(Backoff::table([Duration::ZERO])),
        _ => Err(format!("{text:?} is no retry rule; {GRAMMAR}")),
    }
}

/// `1s..15m`, and perhaps `,jitter=0.2`.
fn exponential(text: &str) -> Result<Backoff, String> {
    let (range, jitter) = match text.split_once(',') {
        Some((range, more)) => (range, Some(more)),
        None => (text, None),
    };
    let (base, max) =
        range.split_once("..").ok_or_else(|| format!("{range:?} has no BASE..MAX; {GRAMMAR}"))?;
    let (base, max) = (span::parse(base)?, span::parse(max)?);
    if base.is_zero() || max < base {
        return Err(format!(
            "the waits go from {base:?} to {max:?}; the first must be longer than nothing, and the longest at least as long"
        ));
    }
    let Backoff::Exponential { jitter: usual, .. } = Backoff::default() else { return Err(GRAMMAR.into()) };
    let jitter = jitter.map_or(Ok(usual), self::jitter)?;
    Ok(Backoff::Exponential { base, max, jitter })
}

fn jitter(text: &str) -> Result<f64, String> {
    text.strip_prefix("jitter=")
        .and_then(|part| part.parse().ok())
        .filter(|part| (0.0..=1.0).contains(part))
        .ok_or_else(|| {
            format!("{text:?} does not say which part of a wait is random; write jitter=0 to jitter=1")
        })
}

/// The wait before each attempt.
fn table(text: &str) -> Result<Backoff, String> {
    let waits = text.split(',').map(span::parse).collect::<Result<Vec<_>, _>>()?;
    if waits.len() > WAITS_MAX {
        return Err(format!("the table has {} waits; use at most {WAITS_MAX}", waits.len()));
    }
    Ok(Backoff::table(waits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read() {
        assert_eq!(parse("exponential:1s..15m"), Ok(Backoff::default()), "what goes without saying");
        let (base, max) = (Duration::from_millis(500), Duration::from_hours(1));
        assert_eq!(
            parse("exponential:500ms..1h,jitter=0"),
            Ok(Backoff::Exponential { base, max, jitter: 0.0 })
        );
        let waits = [0, 30, 300].map(Duration::from_secs);
        assert_eq!(parse("table:0s,30s,5m"), Ok(Backoff::table(waits)));
        assert_eq!(parse("never"), Ok(Backoff::table([Duration::ZERO])));
        assert_eq!(parse_own("table:30s,5m"), Ok(Backoff::table([30, 300].map(Duration::from_secs))));
    }

    #[test]
    fn what_is_no_rule_is_refused_with_the_next_step() {
        let long = format!("table:0s{}", ",1s".repeat(WAITS_MAX));
        for (bad, said) in [
            ("often", "is no retry rule; write exponential:BASE..MAX"),
            ("exp:1s..2s", "is no retry rule"),
            ("exponential:1s", "has no BASE..MAX"),
            ("exponential:1..2", "is no length of time"),
            ("exponential:0s..1s", "longer than nothing"),
            ("exponential:2s..1s", "at least as long"),
            ("exponential:1s..2s,jitter=2", "jitter=0 to jitter=1"),
            ("exponential:1s..2s,0.2", "jitter=0 to jitter=1"),
            ("table:", "is no length of time"),
            ("table:30s,5m", "begin with 0s"),
            (&long, "has 101 waits"),
        ] {
            let fault = parse(bad).unwrap_err();
            assert!(fault.contains(said), "{bad}: {fault}");
        }
    }
}
