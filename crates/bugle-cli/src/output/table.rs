//! Tables of plain text.

use ratatui::text::Span;

/// Columns are this far apart.
const GAP: usize = 2;
/// A cell longer than this is cut: the whole value is in the JSON.
const CELL_COLUMNS_MAX: usize = 60;

/// To which side a column's cells are pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table with a head line.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
    cut: bool,
}

impl Table {
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new(), cut: true }
    }

    /// Long cells are sentences, to be read in full.
    pub(crate) fn uncut(mut self) -> Self {
        self.cut = false;
        self
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let tidy = |cell: String| if self.cut { cut(&clean(&cell)) } else { clean(&cell) };
        self.rows.push(cells.into_iter().map(tidy).collect());
    }

    pub(crate) fn render(&self) -> String {
        let head: Vec<String> = self.columns.iter().map(|(name, _)| name.to_uppercase()).collect();
        let lines = || std::iter::once(&head).chain(&self.rows);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|i| lines().filter_map(|line| line.get(i)).map(|cell| width(cell)).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for line in lines() {
            let mut written = String::new();
            for ((cell, wide), (_, align)) in line.iter().zip(&widths).zip(&self.columns) {
                let padding = " ".repeat(wide.saturating_sub(width(cell)));
                match align {
                    Align::Left => written.extend([cell.as_str(), &padding]),
                    Align::Right => written.extend([&padding, cell.as_str()]),
                }
                written.push_str(&" ".repeat(GAP));
            }
            text.push_str(written.trim_end());
            text.push('\n');
        }
        text
    }
}

/// How many columns of a terminal it takes.
fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Without control characters: what a stranger wrote into a job may not steer the terminal.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn cut(text: &str) -> String {
    if width(text) <= CELL_COLUMNS_MAX {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        if width(&kept) + width(c.encode_utf8(&mut [0; 4])) >= CELL_COLUMNS_MAX {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_the_terminal_draws_them() {
        let mut table = Table::new(&[("name", Align::Left), ("n", Align::Right)]);
        table.row(["日本".to_owned(), "7".to_owned()]);
        table.row(["e\u{301}".to_owned(), "1234".to_owned()]);
        assert_eq!(table.render(), "NAME     N\n日本     7\ne\u{301}     1234\n");
    }

    #[test]
    fn a_cell_can_neither_steer_the_terminal_nor_fill_it() {
        let mut table = Table::new(&[("message", Align::Left)]);
        table.row(["\u{1b}[2Jgone\nnext".to_owned()]);
        table.row(["x".repeat(500)]);
        let text = table.render();
        assert!(!text.contains('\u{1b}') && text.contains("[2Jgone next"), "{text}");
        assert!(text.lines().all(|line| width(line) <= CELL_COLUMNS_MAX), "{text}");
    }
}
