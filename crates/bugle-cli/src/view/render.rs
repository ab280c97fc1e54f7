//! Drawing a snapshot on a terminal. A pure function: the same numbers give the same picture.

use super::{History, Snapshot};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Row, Sparkline, Table};
use std::time::Duration;

/// A worker's name is cut after this many columns.
const NAME_COLUMNS_MAX: u16 = 32;

/// Draws one snapshot. `title` says what is watched; `footer` what can be done.
pub(crate) fn render(
    frame: &mut Frame,
    snapshot: &Snapshot,
    history: &History,
    title: &str,
    footer: &[Line],
) {
    let footer_lines = u16::try_from(footer.len()).unwrap_or(1);
    let [head, rates, jobs, numbers, workers, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(6),
        Constraint::Length(4),
        Constraint::Length(4),
        Constraint::Min(4),
        Constraint::Length(footer_lines),
    ])
    .areas(frame.area());
    frame.render_widget(Line::from(vec![" bugle ".bold().reversed(), Span::raw(format!("  {title}"))]), head);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(rates);
    let width = |area: Rect| usize::from(area.width.saturating_sub(2));
    let enqueued = format!(" enqueued {}/s ", number(snapshot.enqueued_per_second));
    spark(frame, left, enqueued, &history.enqueued(width(left)), Color::Cyan);
    let done = format!(" done {}/s ", number(snapshot.done_per_second));
    spark(frame, right, done, &history.done(width(right)), Color::Green);
    frame.render_widget(counts(snapshot), jobs);
    frame.render_widget(costs(snapshot), numbers);
    frame.render_widget(holders(snapshot), workers);
    frame.render_widget(Paragraph::new(footer.to_vec()), foot);
}

fn spark(frame: &mut Frame, area: Rect, title: String, data: &[u64], color: Color) {
    let chart = Sparkline::default()
        .block(Block::default().borders(Borders::ALL).title(title))
        .data(data)
        .style(Style::default().fg(color));
    frame.render_widget(chart, area);
}

fn counts(snapshot: &Snapshot) -> Paragraph<'static> {
    let c = &snapshot.counts;
    let states = [
        ("scheduled", c.scheduled, Color::Yellow),
        ("ready", c.ready, Color::Cyan),
        ("leased", c.leased, Color::Blue),
        ("done", c.done, Color::Green),
        ("dead", c.dead, Color::Red),
    ];
    let troubles = [
        ("attempts retried", c.retried, Color::Yellow),
        ("taken back from lost workers", c.taken_back, Color::Magenta),
    ];
    Paragraph::new(vec![numbers(&states), numbers(&troubles)])
        .block(Block::default().borders(Borders::ALL).title(" jobs "))
}

/// Names with their numbers, on one line.
fn numbers(named: &[(&'static str, i64, Color)]) -> Line<'static> {
    let spans = named.iter().flat_map(|(name, count, color)| {
        let count = Span::styled(count.to_string(), Style::default().fg(*color).bold());
        [Span::raw(*name), Span::raw(" "), count, Span::raw("   ")]
    });
    spans.collect()
}

fn costs(snapshot: &Snapshot) -> Paragraph<'static> {
    let pick_up =
        snapshot.pick_up.map_or_else(|| "nothing picked up yet".to_owned(), |p| super::line::percentiles(&p));
    let statements = match snapshot.statements_per_second {
        Some(rate) => format!("{} statements/s", number(rate)),
        None => "statements not counted here".to_owned(),
    };
    Paragraph::new(vec![
        Line::raw(format!("pick-up latency  {pick_up}")),
        Line::raw(format!(
            "database         {statements}, {} transactions/s",
            number(snapshot.transactions_per_second)
        )),
    ])
    .block(Block::default().borders(Borders::ALL).title(" latency and cost "))
}

fn holders(snapshot: &Snapshot) -> Table<'static> {
    let rows = snapshot.workers.iter().map(|worker| {
        let pid = worker.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        Row::new([worker.name.clone(), pid, worker.holds.to_string(), worker.note.clone()])
    });
    let longest = snapshot.workers.iter().map(|worker| Span::raw(&worker.name).width()).max().unwrap_or(0);
    let name = u16::try_from(longest).unwrap_or(NAME_COLUMNS_MAX).clamp(8, NAME_COLUMNS_MAX);
    let widths =
        [Constraint::Length(name), Constraint::Length(7), Constraint::Length(5), Constraint::Fill(1)];
    Table::new(rows, widths)
        .header(Row::new(["worker", "pid", "holds", ""]).bold())
        .block(Block::default().borders(Borders::ALL).title(" workers "))
}

/// A rate in a few characters.
pub(super) fn number(rate: f64) -> String {
    if rate >= 10.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}

/// A latency in a few characters.
pub(super) fn length(length: Duration) -> String {
    let ms = length.as_secs_f64() * 1_000.0;
    match ms {
        ms if ms >= 10_000.0 => format!("{:.1} s", ms / 1_000.0),
        ms if ms >= 100.0 => format!("{ms:.0} ms"),
        ms => format!("{ms:.1} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Counts, Percentiles, WorkerLine};
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(width: u16, height: u16, snapshot: &Snapshot) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let mut history = History::default();
        history.push(snapshot);
        let footer = [Line::raw("q quit")];
        terminal.draw(|frame| render(frame, snapshot, &history, "queue demo", &footer)).unwrap();
        terminal.backend().to_string()
    }

    fn busy() -> Snapshot {
        Snapshot {
            enqueued_per_second: 51.4,
            done_per_second: 9.25,
            counts: Counts {
                scheduled: 11,
                ready: 22,
                leased: 33,
                done: 44,
                dead: 55,
                taken_back: 66,
                ..Counts::default()
            },
            pick_up: Percentiles::of(vec![Duration::from_micros(1_500); 3]),
            statements_per_second: Some(123.0),
            transactions_per_second: 99.0,
            workers: vec![WorkerLine {
                name: "demo-1".into(),
                pid: Some(4711),
                holds: 3,
                note: "killed".into(),
            }],
            ..Snapshot::default()
        }
    }

    #[test]
    fn every_number_is_on_the_smallest_usual_screen() {
        let screen = drawn(80, 24, &busy());
        for part in [
            "queue demo",
            "enqueued 51/s",
            "done 9.2/s",
            "scheduled 11",
            "ready 22",
            "leased 33",
            "done 44",
            "dead 55",
            "taken back from lost workers 66",
            "p50 1.5 ms",
            "123 statements/s",
            "99 transactions/s",
            "demo-1",
            "4711",
            "killed",
            "q quit",
        ] {
            assert!(screen.contains(part), "{part} is missing in\n{screen}");
        }
    }

    #[test]
    fn a_tiny_terminal_is_no_reason_to_die() {
        for (width, height) in [(1, 1), (10, 3), (40, 8)] {
            drawn(width, height, &busy());
        }
    }

    #[test]
    fn what_is_not_known_is_said() {
        let screen = drawn(100, 24, &Snapshot::default());
        assert!(
            screen.contains("nothing picked up yet") && screen.contains("statements not counted here"),
            "{screen}"
        );
    }
}
