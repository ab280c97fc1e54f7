//! What the environment asks of a contender.

use crate::failure::Failure;
use std::time::Duration;

/// One of the four things to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// a
    Enqueue,
    /// b
    Drain,
    /// c
    PickUp,
    /// d
    Idle,
}

/// What to measure, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    /// In their order, each once.
    pub(super) phases: Vec<Phase>,
    pub(super) jobs: usize,
    pub(super) bulk: usize,
    pub(super) callers: usize,
    pub(super) latency_jobs: usize,
    pub(super) latency_every: Duration,
    pub(super) idle: Duration,
    pub(super) drain_max: Duration,
}

impl Settings {
    /// `variable` is the environment.
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Failure> {
        let number =
            |name: &str, default: u32| match variable(name).filter(|text| !text.is_empty()) {
                None => Ok(default),
                Some(text) => text.trim().parse().ok().filter(|number| *number > 0).ok_or_else(|| {
                    Failure::user(format!("{name} is {text:?}; use a whole number above zero"))
                }),
            };
        let count =
            |name, default| number(name, default).map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        let seconds = |name, default| number(name, default).map(|n| Duration::from_secs(n.into()));
        Ok(Self {
            phases: phases(&variable("BENCH_PHASES").unwrap_or_default())?,
            jobs: count("BENCH_N", 20_000)?,
            bulk: count("BENCH_BULK", 500)?,
            callers: count("BENCH_CONC", 8)?,
            latency_jobs: count("BENCH_LAT_N", 100)?,
            latency_every: Duration::from_millis(number("BENCH_LAT_MS", 100)?.into()),
            idle: seconds("BENCH_IDLE_S", 30)?,
            drain_max: seconds("BENCH_DRAIN_MAX_S", 300)?,
        })
    }
}

/// All of them when none is named.
fn phases(text: &str) -> Result<Vec<Phase>, Failure> {
    let all = [('a', Phase::Enqueue), ('b', Phase::Drain), ('c', Phase::PickUp), ('d', Phase::Idle)];
    let letters: Vec<char> =
        text.chars().filter(|c| !c.is_whitespace() && *c != ',').map(|c| c.to_ascii_lowercase()).collect();
    if let Some(strange) = letters.iter().find(|letter| all.iter().all(|(known, _)| known != *letter)) {
        return Err(Failure::user(format!(
            "BENCH_PHASES names a phase {strange:?}; there are a, b, c and d"
        )));
    }
    Ok(all
        .into_iter()
        .filter(|(letter, _)| letters.is_empty() || letters.contains(letter))
        .map(|(_, phase)| phase)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &'static str, value: &'static str) -> Result<Settings, Failure> {
        Settings::read(|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn an_empty_environment_asks_for_everything() {
        let settings = Settings::read(|_| None).unwrap();
        assert_eq!(settings.phases.len(), 4);
        assert_eq!((settings.jobs, settings.bulk, settings.callers), (20_000, 500, 8));
        assert_eq!(settings.idle, Duration::from_secs(30));
    }

    #[test]
    fn phases_are_letters_in_any_form() {
        for text in ["bd", "d b", "B,D"] {
            assert_eq!(of("BENCH_PHASES", text).unwrap().phases, [Phase::Drain, Phase::Idle], "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_name() {
        for (name, value) in [("BENCH_PHASES", "ax"), ("BENCH_N", "0"), ("BENCH_CONC", "many")] {
            assert!(of(name, value).unwrap_err().to_string().contains(name), "{name}={value}");
        }
    }
}
