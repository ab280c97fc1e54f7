//! Reading requests: statements are recognised here, held, cut or let pass.
use std::sync::Arc;

use tokio::net::tcp::ReadHalf;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::fault::{Direction, Kind, Moment};
use super::frames::{Frames, HEAD_BYTES_MAX, Piece};
use super::frontend::Frontend;
use super::link::{Ending, Item, Trap, TrapCell, swallow};
use super::rule::{Rule, View};

pub(super) struct Upstream<'a> {
    source: ReadHalf<'a>,
    writer: mpsc::Sender<Item>,
    view: View,
    trap: &'a TrapCell,
    frames: Frames,
    frontend: Frontend,
    /// Read but not handed to the writer: the beginning of a request.
    kept: Vec<u8>,
    /// Requests that PostgreSQL will answer with `ReadyForQuery`; the startup message is the first.
    asked: u64,
    /// To be cut as soon as the request is forwarded.
    cut_after_forward: Option<Arc<Rule>>,
}

impl<'a> Upstream<'a> {
    pub(super) fn new(
        source: ReadHalf<'a>,
        writer: mpsc::Sender<Item>,
        view: View,
        trap: &'a TrapCell,
    ) -> Self {
        Self {
            source,
            writer,
            view,
            trap,
            frames: Frames::new(Frontend::needs),
            frontend: Frontend::default(),
            kept: Vec::new(),
            asked: 1,
            cut_after_forward: None,
        }
    }

    /// Reads to the end of the stream, or until something must end the connection.
    pub(super) async fn run(mut self, startup: Vec<u8>) {
        let end = self.read(startup).await.map_or_else(Item::End, |()| Item::EndOfStream);
        // A writer that is gone has ended the connection already.
        let _ = self.writer.send(end).await;
    }

    async fn read(&mut self, startup: Vec<u8>) -> Result<(), Ending> {
        self.lose_in_black_hole().await?;
        self.kept = startup;
        self.forward().await;
        loop {
            let read = self.frames.fill(&mut self.source).await.map_err(Ending::Broken)?;
            self.lose_in_black_hole().await?;
            if read == 0 {
                self.kept.extend(self.frames.remainder());
                self.forward().await;
                return Ok(());
            }
            while let Some(piece) = self.frames.take().map_err(Ending::Broken)? {
                self.take(&piece).await?;
            }
        }
    }

    async fn lose_in_black_hole(&mut self) -> Result<(), Ending> {
        let wanted = |kind: &Kind| matches!(kind, Kind::BlackHole(ways) if ways.covers(Direction::ToServer));
        match self.view.strike(wanted) {
            Some(rule) => Err(swallow(&mut self.source, self.view.clone(), rule).await),
            None => Ok(()),
        }
    }

    async fn take(&mut self, piece: &Piece) -> Result<(), Ending> {
        if piece.first
            && let Some(sql) = self.frontend.observe(piece.tag, self.frames.body(piece))
        {
            self.pass_gates(&sql).await;
            self.meet_cuts(&sql)?;
        }
        self.kept.extend(self.frames.bytes(piece));
        if !Frontend::is_part(piece.tag) || self.kept.len() > HEAD_BYTES_MAX {
            self.forward().await;
        }
        if piece.last && Frontend::ends_request(piece.tag) {
            self.asked += 1;
            if let Some(rule) = self.cut_after_forward.take() {
                return Err(Ending::Statement(rule));
            }
        }
        Ok(())
    }

    async fn pass_gates(&self, sql: &str) {
        let gates = self.view.all(|kind| matches!(kind, Kind::Gate(statement, _) if statement.covers(sql)));
        for rule in gates {
            if let Kind::Gate(_, hold) = &rule.kind {
                hold.wait(&rule).await;
            }
        }
    }

    fn meet_cuts(&mut self, sql: &str) -> Result<(), Ending> {
        let wanted = |kind: &Kind| matches!(kind, Kind::CutStatement(_, statement) if statement.covers(sql));
        let Some(rule) = self.view.strike(wanted) else { return Ok(()) };
        match &rule.kind {
            Kind::CutStatement(Moment::BeforeForward, _) => return Err(Ending::Statement(rule)),
            Kind::CutStatement(Moment::AfterForward, _) => self.cut_after_forward = Some(rule),
            // Set before the request can leave, so that its answer cannot slip through.
            _ => drop(self.trap.set(Trap { answer: self.asked + 1, rule })),
        }
        Ok(())
    }

    async fn forward(&mut self) {
        if !self.kept.is_empty() {
            let bytes = std::mem::take(&mut self.kept);
            let _ = self.writer.send(Item::Bytes { arrived: Instant::now(), bytes }).await;
        }
    }
}
