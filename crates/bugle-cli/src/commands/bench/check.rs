//! Figures beside what they should be.

use super::figure::Figure;
use crate::output::{Align, Table};
use serde::Serialize;

/// What a figure should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Target {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, "≥ {least}"),
            Self::AtMost(most) => write!(f, "≤ {most}"),
        }
    }
}

/// A figure, its target, and whether the median meets it.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    figure: String,
    /// None: it could not be measured here.
    value: Option<Figure>,
    target: String,
    met: bool,
}

impl Check {
    pub(super) fn new(figure: impl Into<String>, value: Option<Figure>, target: Target) -> Self {
        let met = value.is_some_and(|value| target.is_met_by(value.median));
        Self { figure: figure.into(), value, target: target.to_string(), met }
    }

    /// `met`, `short`, or why neither can be said.
    fn verdict(&self) -> &'static str {
        match (&self.value, self.met) {
            (None, _) => "not measured",
            (Some(_), true) => "met",
            (Some(_), false) => "short",
        }
    }
}

/// One line for each.
pub(super) fn table(checks: &[Check]) -> Table {
    let right = |name| (name, Align::Right);
    let columns = [
        ("figure", Align::Left),
        right("median"),
        right("min to max"),
        right("target"),
        ("verdict", Align::Left),
    ];
    let mut table = Table::new(&columns).uncut();
    for check in checks {
        let [median, rounds] = Figure::cells(check.value, 2);
        table.row([check.figure.clone(), median, rounds, check.target.clone(), check.verdict().to_owned()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_decides_and_what_was_not_measured_is_not_met() {
        let figure = Figure::of(&[0.7, 0.8, 0.9]);
        let verdict = |value, target| Check::new("it", value, target).verdict();
        assert_eq!(verdict(figure, Target::AtLeast(0.8)), "met");
        assert_eq!(verdict(figure, Target::AtLeast(0.81)), "short");
        assert_eq!(verdict(figure, Target::AtMost(0.79)), "short");
        assert_eq!(verdict(None, Target::AtMost(1.0)), "not measured");
        assert!(!Check::new("it", None, Target::AtMost(1.0)).met);
    }
}
