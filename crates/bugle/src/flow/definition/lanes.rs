//! The edges of a drawing: a row for each step, in which its parents' lanes come down to it.
//!
//! A step with children has a lane: a line that goes down beside the steps that follow, and that each of its children branches off from. Where
//! many steps lead to one, their lanes are one, drawn double. `●` goes on below, `○` does not: a step may stand right below one that it has
//! nothing to do with.

/// Most lanes of a drawing. A step beyond them is drawn without a lane, and its children say its name instead.
const LANES_MAX: usize = 16;
/// From how many parents on a step is led to by one double lane.
const MEETING_MIN: usize = 3;

/// What goes down a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Free,
    /// From a step to `left` more children.
    From {
        step: usize,
        left: usize,
    },
    /// To a step, from whoever joins.
    To {
        step: usize,
    },
}

/// The drawing of one step's edges, and those of its parents that it could not be connected to.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) graph: String,
    pub(super) undrawn: Vec<usize>,
}

/// Draws the steps, given the parents of each, all of which come before it.
pub(super) fn rows(parents: &[Vec<usize>]) -> Vec<Row> {
    let mut children = vec![Vec::new(); parents.len()];
    for (step, of) in parents.iter().enumerate() {
        for parent in of {
            children[*parent].push(step);
        }
    }
    let mut lanes = Lanes { columns: vec![Lane::Free; LANES_MAX], joined: vec![false; parents.len()] };
    let row = |step: usize| {
        let place = lanes.place(step, &parents[step]);
        let meeting = match children[step].as_slice() {
            [only] if parents[*only].len() >= MEETING_MIN => lanes.join(*only, &place),
            _ => None,
        };
        let before = lanes.columns.clone();
        lanes.advance(step, &place, meeting, &children[step]);
        let picture = Picture { before: &before, after: &lanes.columns, place: &place, meeting };
        Row { graph: picture.draw(), undrawn: place.undrawn }
    };
    (0..parents.len()).map(row).collect()
}

/// Where a step stands, and which columns lead to it.
struct Place {
    column: usize,
    incoming: Vec<usize>,
    undrawn: Vec<usize>,
}

struct Lanes {
    columns: Vec<Lane>,
    /// Which steps lead to a double lane.
    joined: Vec<bool>,
}

impl Lanes {
    fn place(&self, step: usize, parents: &[usize]) -> Place {
        let find = |wanted: &dyn Fn(&Lane) -> bool| self.columns.iter().position(wanted);
        let meeting = find(&|lane| *lane == Lane::To { step });
        let mut incoming: Vec<usize> = meeting.into_iter().collect();
        let mut undrawn = Vec::new();
        for parent in parents {
            match find(&|lane| matches!(lane, Lane::From { step, .. } if step == parent)) {
                Some(column) => incoming.push(column),
                None if self.joined[*parent] => {}
                None => undrawn.push(*parent),
            }
        }
        let ends =
            |column: &&usize| matches!(self.columns[**column], Lane::To { .. } | Lane::From { left: 1, .. });
        let inherited = meeting.or_else(|| incoming.iter().filter(ends).min().copied());
        // The last column never keeps a lane, so there is always a place.
        let column = inherited.or_else(|| find(&|lane| *lane == Lane::Free)).unwrap_or(LANES_MAX - 1);
        Place { column, incoming, undrawn }
    }

    /// The double lane to `child` that a step at `place` can join or begin, if nothing is in its way.
    fn join(&self, child: usize, place: &Place) -> Option<usize> {
        let existing = self.columns.iter().position(|lane| *lane == Lane::To { step: child });
        let free = |column: &usize| self.columns[*column] == Lane::Free && *column != place.column;
        let column = existing.or_else(|| (place.column + 1..LANES_MAX - 1).find(free))?;
        let same_side = |incoming: &usize| (*incoming > place.column) == (column > place.column);
        let in_the_way =
            place.incoming.iter().any(|incoming| *incoming != place.column && same_side(incoming));
        (!in_the_way).then_some(column)
    }

    fn advance(&mut self, step: usize, place: &Place, meeting: Option<usize>, children: &[usize]) {
        for column in &place.incoming {
            self.columns[*column] = match self.columns[*column] {
                Lane::From { step, left } if left > 1 => Lane::From { step, left: left - 1 },
                _ => Lane::Free,
            };
        }
        match (meeting, children) {
            (Some(column), [child]) => {
                self.columns[column] = Lane::To { step: *child };
                self.joined[step] = true;
            }
            (_, []) => {}
            _ if place.column < LANES_MAX - 1 => {
                self.columns[place.column] = Lane::From { step, left: children.len() };
            }
            _ => {}
        }
    }
}

/// One row: the columns before and after it, the step, the lanes that lead to it and the double one that it leads to.
struct Picture<'a> {
    before: &'a [Lane],
    after: &'a [Lane],
    place: &'a Place,
    meeting: Option<usize>,
}

impl Picture<'_> {
    fn draw(&self) -> String {
        let node = self.place.column;
        let glyph = if self.after[node] == Lane::Free { '○' } else { '●' };
        let ends = || self.place.incoming.iter().copied().chain([node]);
        let single = (ends().min().unwrap_or(node), ends().max().unwrap_or(node));
        let double = self.meeting.map_or((node, node), |column| (node.min(column), node.max(column)));
        let mut row = String::new();
        for column in 0..self.before.len() {
            if column > 0 {
                // Between two columns: is there a line to the left of this one?
                let crosses = |(low, high): (usize, usize)| column > low && column <= high;
                row.push(if crosses(double) {
                    '═'
                } else if crosses(single) {
                    '─'
                } else {
                    ' '
                });
            }
            row.push(if column == node { glyph } else { self.cell(column, single, double) });
        }
        row.trim_end().to_owned()
    }

    fn cell(&self, column: usize, single: (usize, usize), double: (usize, usize)) -> char {
        let goes_on = self.after[column] != Lane::Free;
        if self.meeting == Some(column) {
            return match (self.before[column] != Lane::Free, column > self.place.column) {
                (true, true) => '╣',
                (true, false) => '╠',
                // One that begins does so to the right.
                (false, _) => '╗',
            };
        }
        if self.place.incoming.contains(&column) {
            return match (column > single.0, column < single.1, goes_on) {
                (true, true, true) => '┼',
                (true, true, false) => '┴',
                (true, false, true) => '┤',
                (true, false, false) => '┘',
                (false, _, true) => '├',
                (false, _, false) => '└',
            };
        }
        // A lane that has nothing to do with this step goes over the line.
        match self.after[column] {
            Lane::From { .. } => '│',
            Lane::To { .. } => '║',
            Lane::Free if column > double.0 && column < double.1 => '═',
            Lane::Free if column > single.0 && column < single.1 => '─',
            Lane::Free => ' ',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The edges that a drawing shows, as a person reads it: along the lines.
    fn read(rows: &[Row]) -> BTreeSet<(usize, usize)> {
        let mut edges = BTreeSet::new();
        let mut lanes: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); LANES_MAX];
        for (step, row) in rows.iter().enumerate() {
            let mut cells: Vec<char> = row.graph.chars().collect();
            cells.resize(LANES_MAX * 2, ' ');
            let node = cells.iter().position(|cell| matches!(cell, '●' | '○')).unwrap();
            let mut parents = lanes[node / 2].clone();
            let rightwards: Vec<usize> = (node + 1..cells.len()).collect();
            let leftwards: Vec<usize> = (0..node).rev().collect();
            for way in [rightwards, leftwards] {
                let line = way.first().map_or(' ', |next| cells[*next]);
                for at in way.into_iter().take_while(|at| at % 2 == 0 || cells[*at] == line) {
                    match cells[at] {
                        _ if line == ' ' => break,
                        '├' | '└' | '┼' | '┴' | '┤' | '┘' => {
                            parents.extend(lanes[at / 2].clone());
                        }
                        '╗' | '╣' | '╠' => {
                            lanes[at / 2].insert(step);
                            break;
                        }
                        _ => {}
                    }
                }
            }
            edges.extend(parents.into_iter().map(|parent| (parent, step)));
            for (column, lane) in lanes.iter_mut().enumerate() {
                match cells[column * 2] {
                    '│' | '║' | '├' | '┼' | '┤' | '╗' | '╣' | '╠' => {}
                    '●' => *lane = BTreeSet::from([step]),
                    _ => lane.clear(),
                }
            }
        }
        edges
    }

    proptest! {
        #[test]
        fn the_lines_lead_from_every_step_to_its_children(raw in vec(vec(any::<usize>(), 0..5), 1..40)) {
            let before = |step: usize, raw: &[usize]| -> Vec<usize> {
                let parents: BTreeSet<_> = raw.iter().filter(|_| step > 0).map(|raw| raw % step.max(1)).collect();
                parents.into_iter().collect()
            };
            let parents: Vec<_> = raw.iter().enumerate().map(|(step, raw)| before(step, raw)).collect();
            let rows = rows(&parents);
            let drawn = |(step, of): (usize, &Vec<usize>)| {
                let undrawn = rows[step].undrawn.clone();
                of.iter().filter(move |parent| !undrawn.contains(parent)).map(move |parent| (*parent, step)).collect::<Vec<_>>()
            };
            let expected: BTreeSet<_> = parents.iter().enumerate().flat_map(drawn).collect();
            let picture: Vec<_> = rows.iter().map(|row| row.graph.as_str()).collect();
            prop_assert_eq!(read(&rows), expected, "\n{}", picture.join("\n"));
        }
    }

    #[test]
    fn a_thousand_that_part_and_meet_need_three_lanes() {
        let mut parents = vec![vec![]];
        parents.extend(vec![vec![0]; 1_000]);
        parents.push((1..=1_000).collect());
        let rows = rows(&parents);
        assert!(rows.iter().all(|row| row.undrawn.is_empty() && row.graph.chars().count() <= 5));
        assert_eq!(read(&rows).len(), 2_000);
    }
}
