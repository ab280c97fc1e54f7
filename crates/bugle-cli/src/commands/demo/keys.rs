//! The keyboard.

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long the thread may go on after the last look.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a person asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Pause,
    Kill,
}

/// A thread that reads the keyboard, which can only be waited for by blocking.
pub(super) struct Keyboard {
    keys: mpsc::UnboundedReceiver<Key>,
    closed: Arc<AtomicBool>,
}

impl Keyboard {
    pub(super) fn listen() -> Self {
        let (sender, keys) = mpsc::unbounded_channel();
        let closed = Arc::new(AtomicBool::new(false));
        let stop = closed.clone();
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                match event::poll(LOOK_EVERY) {
                    Ok(false) => {}
                    Ok(true) => {
                        let Ok(event) = event::read() else { return };
                        if let Some(key) = meaning(&event) {
                            let _ = sender.send(key);
                        }
                    }
                    Err(_) => return,
                }
            }
        });
        Self { keys, closed }
    }

    /// The next key that means something; never returns when there will be none.
    pub(super) async fn next(&mut self) -> Key {
        match self.keys.recv().await {
            Some(key) => key,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

fn meaning(event: &Event) -> Option<Key> {
    // On a terminal in raw mode Ctrl-C is a key like any other.
    match event {
        Event::Key(KeyEvent { code: KeyCode::Char('c'), modifiers, .. })
            if modifiers.contains(KeyModifiers::CONTROL) =>
        {
            Some(Key::Quit)
        }
        Event::Key(KeyEvent { code: KeyCode::Char('q') | KeyCode::Esc, .. }) => Some(Key::Quit),
        Event::Key(KeyEvent { code: KeyCode::Char('p'), .. }) => Some(Key::Pause),
        Event::Key(KeyEvent { code: KeyCode::Char('k'), .. }) => Some(Key::Kill),
        _ => None,
    }
}
