//! Where the demo is watched: a live view on a terminal, a line a second elsewhere.

use super::keys::{Key, Keyboard};
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;
use crate::view::{self, History, Snapshot};
use ratatui::DefaultTerminal;
use ratatui::style::Stylize as _;
use ratatui::text::Line;

/// A live terminal, or lines.
pub(super) enum Screen {
    Live { terminal: Box<DefaultTerminal>, keyboard: Keyboard, title: String, join: String },
    Lines(Output),
}

impl Screen {
    pub(super) fn open(output: Output, place: &Place) -> Result<Self, Failure> {
        if !output.is_a_live_terminal() {
            return Ok(Self::Lines(output));
        }
        let terminal = ratatui::try_init().map_err(|e| Failure::system("draw on the terminal", &e))?;
        let title = format!("queue {} on {}", super::QUEUE, place.describe());
        let join = place.how_to_join();
        Ok(Self::Live { terminal: Box::new(terminal), keyboard: Keyboard::listen(), title, join })
    }

    /// The next key; none ever comes where there is no keyboard.
    pub(super) async fn key(&mut self) -> Key {
        match self {
            Self::Live { keyboard, .. } => keyboard.next().await,
            Self::Lines(_) => std::future::pending().await,
        }
    }

    /// Shows how things are; `is_new` when the numbers are from the database just now.
    pub(super) fn show(
        &mut self,
        snapshot: &Snapshot,
        history: &History,
        is_new: bool,
        paused: bool,
    ) -> Result<(), Failure> {
        match self {
            Self::Live { terminal, title, join, .. } => {
                let footer = footer(snapshot, paused, join);
                terminal
                    .draw(|frame| view::render(frame, snapshot, history, title, &footer))
                    .map_err(|e| Failure::system("draw on the terminal", &e))?;
            }
            Self::Lines(output) if is_new && output.asked_for_json() => output.json(snapshot)?,
            Self::Lines(output) if is_new => output.line(&view::line(snapshot))?,
            Self::Lines(_) => {}
        }
        Ok(())
    }

    /// Gives the terminal back.
    pub(super) fn close(self) {
        if let Self::Live { .. } = self {
            ratatui::restore();
        }
    }
}

fn footer(snapshot: &Snapshot, paused: bool, join: &str) -> Vec<Line<'static>> {
    let pids: Vec<String> = snapshot
        .workers
        .iter()
        .filter(|worker| worker.note == "running")
        .filter_map(|worker| worker.pid.map(|pid| pid.to_string()))
        .collect();
    let invitation = match pids.first() {
        Some(pid) => format!("try: kill -9 {pid}  (its jobs run elsewhere when its 5 s lease ends)"),
        None => "every worker is gone: jobs wait until one is back".to_owned(),
    };
    let pause = if paused { "p go on producing" } else { "p pause the producers" };
    vec![
        Line::raw(invitation).italic(),
        Line::raw(join.to_owned()).italic(),
        Line::from(vec![
            "q".bold(),
            " quit   ".into(),
            pause.to_owned().into(),
            "   ".into(),
            "k".bold(),
            " kill -9 a worker".into(),
        ]),
    ]
}
