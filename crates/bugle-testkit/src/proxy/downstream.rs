//! Reading answers: notifications are dropped here, and trapped answers swallowed.
use tokio::net::tcp::ReadHalf;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::fault::{Direction, Kind};
use super::frames::{Frames, Piece};
use super::link::{Ending, Item, Trap, TrapCell, swallow};
use super::rule::View;

const NOTIFICATION_RESPONSE: u8 = b'A';
const READY_FOR_QUERY: u8 = b'Z';

pub(super) struct Downstream<'a> {
    source: ReadHalf<'a>,
    writer: mpsc::Sender<Item>,
    view: View,
    trap: &'a TrapCell,
    frames: Frames,
    out: Vec<u8>,
    /// `ReadyForQuery` messages seen; the first answers the startup message.
    answered: u64,
    /// The current message is not for the client.
    dropping: bool,
}

impl<'a> Downstream<'a> {
    pub(super) fn new(
        source: ReadHalf<'a>,
        writer: mpsc::Sender<Item>,
        view: View,
        trap: &'a TrapCell,
    ) -> Self {
        let frames = Frames::new(|_| false);
        Self { source, writer, view, trap, frames, out: Vec::new(), answered: 0, dropping: false }
    }

    /// Reads to the end of the stream, or until something must end the connection.
    pub(super) async fn run(mut self) {
        let end = self.read().await.map_or_else(Item::End, |()| Item::EndOfStream);
        // A writer that is gone has ended the connection already.
        let _ = self.writer.send(end).await;
    }

    async fn read(&mut self) -> Result<(), Ending> {
        loop {
            let read = self.frames.fill(&mut self.source).await.map_err(Ending::Broken)?;
            let wanted =
                |kind: &Kind| matches!(kind, Kind::BlackHole(ways) if ways.covers(Direction::ToClient));
            if let Some(rule) = self.view.strike(wanted) {
                return Err(swallow(&mut self.source, self.view.clone(), rule).await);
            }
            if read == 0 {
                self.out.extend(self.frames.remainder());
                self.forward().await;
                return Ok(());
            }
            while let Some(piece) = self.frames.take().map_err(Ending::Broken)? {
                if let Some(trap) = self.take(&piece) {
                    let ending = Ending::Statement(trap.rule.clone());
                    self.forward().await;
                    return Err(ending);
                }
            }
            self.forward().await;
        }
    }

    /// Takes a piece in; returns the trap if this completes its answer.
    fn take(&mut self, piece: &Piece) -> Option<&'a Trap> {
        let trap = self.trap.get().filter(|trap| trap.answer == self.answered + 1);
        if piece.first {
            self.dropping = trap.is_some() || self.drops_notification(piece.tag);
        }
        if !self.dropping {
            self.out.extend(self.frames.bytes(piece));
        }
        if piece.last && piece.tag == READY_FOR_QUERY {
            self.answered += 1;
            return trap;
        }
        None
    }

    fn drops_notification(&self, tag: u8) -> bool {
        if tag != NOTIFICATION_RESPONSE {
            return false;
        }
        let rule = self.view.strike(|kind| matches!(kind, Kind::DropNotifications));
        rule.inspect(|rule| rule.hit()).is_some()
    }

    async fn forward(&mut self) {
        if !self.out.is_empty() {
            let bytes = std::mem::take(&mut self.out);
            let _ = self.writer.send(Item::Bytes { arrived: Instant::now(), bytes }).await;
        }
    }
}
