//! Two sides that took turns, and the ratio of each round.

use super::check::{Check, Target};
use super::figure::{Figure, rounded};
use crate::output::{Align, Table};
use serde::Serialize;

/// What the rounds of a figure gave, in jobs a second.
pub(super) struct Ratio {
    figure: &'static str,
    /// The ratio should be at least this.
    target: Option<f64>,
    floor: Vec<f64>,
    bugle: Vec<f64>,
}

/// One line of the result.
#[derive(Serialize)]
pub(super) struct Row {
    figure: &'static str,
    floor_per_s: Option<Figure>,
    bugle_per_s: Option<Figure>,
    /// Of the two sides of the same round.
    ratio: Option<Figure>,
    at_least: Option<f64>,
}

impl Ratio {
    pub(super) fn new(figure: &'static str, target: Option<f64>) -> Self {
        Self { figure, target, floor: Vec::new(), bugle: Vec::new() }
    }

    /// Adds a round.
    pub(super) fn add(&mut self, floor: f64, bugle: f64) {
        self.floor.push(floor);
        self.bugle.push(bugle);
    }

    pub(super) fn row(&self) -> Row {
        let whole =
            |rates: &[f64]| Figure::of(&rates.iter().map(|rate| rounded(*rate, 0)).collect::<Vec<_>>());
        let ratios: Vec<f64> =
            self.bugle.iter().zip(&self.floor).map(|(bugle, floor)| bugle / floor).collect();
        Row {
            figure: self.figure,
            floor_per_s: whole(&self.floor),
            bugle_per_s: whole(&self.bugle),
            ratio: Figure::of(&ratios),
            at_least: self.target,
        }
    }
}

impl Row {
    /// None where there is no target.
    pub(super) fn check(&self) -> Option<Check> {
        let least = self.at_least?;
        Some(Check::new(format!("{} / floor", self.figure), self.ratio, Target::AtLeast(least)))
    }
}

pub(super) fn table(rows: &[Row]) -> Table {
    let right = |name| (name, Align::Right);
    let columns = [
        ("figure", Align::Left),
        right("floor/s"),
        right("bugle/s"),
        right("ratio"),
        right("min to max"),
        right("at least"),
    ];
    let mut table = Table::new(&columns).uncut();
    for row in rows {
        let ([floor, _], [bugle, _], [ratio, rounds]) = (
            Figure::cells(row.floor_per_s, 0),
            Figure::cells(row.bugle_per_s, 0),
            Figure::cells(row.ratio, 2),
        );
        let least = row.at_least.map_or_else(String::new, |least| format!("{least:.2}"));
        table.row([row.figure.to_owned(), floor, bugle, ratio, rounds, least]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_the_same_round() {
        let mut ratio = Ratio::new("it", Some(0.8));
        ratio.add(100.0, 50.0); // a slow moment of the machine for one side
        ratio.add(200.0, 180.0);
        ratio.add(50.0, 50.0); // and for both
        let row = ratio.row();
        assert_eq!(Figure::cells(row.ratio, 2), ["0.90", "0.50 to 1.00"]);
        assert_eq!(serde_json::to_value(row.check()).unwrap()["met"], true);
        assert!(Ratio::new("it", None).row().check().is_none());
    }
}
