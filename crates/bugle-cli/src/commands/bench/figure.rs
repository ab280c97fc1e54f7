//! Figures: what several rounds gave, in a form that hides neither the best nor the worst of them.

use crate::failure::Failure;
use crate::output::{Output, Table};
use serde::Serialize;
use std::time::Duration;

/// The median of the rounds, the lowest and the highest.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Figure {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Figure {
    /// None of no rounds.
    pub(super) fn of(rounds: &[f64]) -> Option<Self> {
        if rounds.is_empty() {
            return None;
        }
        Some(Self {
            median: median(rounds),
            min: rounds.iter().copied().fold(f64::INFINITY, f64::min),
            max: rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    /// What each of so many has of it.
    pub(super) fn shared_by(self, count: usize) -> Self {
        let share = |value: f64| value / number(count.max(1));
        Self { median: share(self.median), min: share(self.min), max: share(self.max) }
    }

    /// Two cells of a table: the median, and the lowest and highest round.
    pub(super) fn cells(figure: Option<Self>, digits: usize) -> [String; 2] {
        figure.map_or_else(
            || ["n/a".to_owned(), String::new()],
            |f| [format!("{:.digits$}", f.median), format!("{:.digits$} to {:.digits$}", f.min, f.max)],
        )
    }
}

/// How long things took, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Percentiles {
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Percentiles {
    /// None of no measurements.
    pub(super) fn of(milliseconds: &[f64]) -> Option<Self> {
        let mut sorted = milliseconds.to_vec();
        sorted.sort_by(f64::total_cmp);
        // The smallest value that at least this part of all values does not exceed.
        let at =
            |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Some(Self { p50: at(50)?, p90: at(90)?, p95: at(95)?, p99: at(99)?, min: at(0)?, max: at(100)? })
    }
}

/// One figure of each of the rounds.
pub(super) fn of_rounds<T>(rounds: &[T], of: impl Fn(&T) -> f64) -> Option<Figure> {
    Figure::of(&rounds.iter().map(of).collect::<Vec<_>>())
}

/// The one in the middle.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// So many in that time, a second.
pub(super) fn rate(count: usize, time: Duration) -> f64 {
    number(count) / time.as_secs_f64()
}

/// With so many digits after the point: more would be noise.
pub(super) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// A count as a figure.
pub(super) fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// What a benchmark prints: its value to a program, its tables and what must be said about them to a person.
pub(super) fn print(
    output: Output,
    value: &impl Serialize,
    tables: &[Table],
    notes: &[String],
) -> Result<(), Failure> {
    if output.is_json() {
        return Ok(output.json(value)?);
    }
    let mut parts: Vec<String> = tables.iter().map(Table::render).collect();
    if !notes.is_empty() {
        parts.push(notes.join("\n") + "\n");
    }
    Ok(output.text(&parts.join("\n"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let found = Percentiles::of(&values).unwrap();
        let shown = [found.min, found.p50, found.p90, found.p99, found.max].map(|ms| ms.to_string());
        assert_eq!(shown, ["1", "100", "180", "198", "200"]);
        assert!(Percentiles::of(&[]).is_none());
    }

    #[test]
    fn a_figure_shows_its_rounds() {
        let figure = Figure::of(&[3.0, 1.0, 2.0]);
        assert_eq!(Figure::cells(figure, 1), ["2.0", "1.0 to 3.0"]);
        assert_eq!(Figure::cells(None, 1), ["n/a", ""]);
    }
}
