//! The end of one direction: bytes leave late, slowly, in slices, or not at all.
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::tcp::WriteHalf;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::fault::{Direction, Kind};
use super::link::{Ending, Item};
use super::rule::View;

/// A throttled stream moves this often.
const THROTTLE_STEPS_PER_SECOND: u32 = 20;

pub(super) struct Writer<'a> {
    sink: WriteHalf<'a>,
    items: mpsc::Receiver<Item>,
    view: View,
    way: Direction,
    /// The way is shut: by a fault, or because the receiver is gone.
    shut: bool,
    /// When a throttled stream may move again.
    free_at: Instant,
}

impl<'a> Writer<'a> {
    pub(super) fn new(sink: WriteHalf<'a>, items: mpsc::Receiver<Item>, view: View, way: Direction) -> Self {
        Self { sink, items, view, way, shut: false, free_at: Instant::now() }
    }

    /// Writes until the stream ends, or until it must be ended.
    pub(super) async fn run(mut self) -> Result<(), Ending> {
        loop {
            self.half_close().await;
            let item = tokio::select! {
                item = self.items.recv() => item,
                () = self.view.changed() => continue,
            };
            self.stall().await;
            match item {
                Some(Item::Bytes { arrived, bytes }) => {
                    self.delay(arrived).await;
                    self.write(&bytes).await;
                }
                Some(Item::EndOfStream) | None => {
                    self.shut().await;
                    return Ok(());
                }
                Some(Item::End(ending)) => return Err(ending),
            }
        }
    }

    async fn half_close(&mut self) {
        let way = self.way;
        let wanted = |kind: &Kind| matches!(kind, Kind::HalfClose(ways) if ways.covers(way));
        if !self.shut
            && let Some(rule) = self.view.strike_once(wanted)
        {
            rule.hit();
            self.shut().await;
        }
    }

    async fn shut(&mut self) {
        self.shut = true;
        // A receiver that is gone has no need of the news.
        let _ = self.sink.shutdown().await;
    }

    async fn stall(&mut self) {
        let way = self.way;
        while let Some(rule) = self.view.strike(|kind| matches!(kind, Kind::Stall(ways) if ways.covers(way)))
        {
            rule.hit();
            self.view.lifted(&rule).await;
        }
    }

    async fn delay(&mut self, arrived: Instant) {
        let way = self.way;
        let wanted = |kind: &Kind| matches!(kind, Kind::Delay(ways, _) if ways.covers(way));
        if let Some(rule) = self.view.strike(wanted)
            && let Kind::Delay(_, by) = rule.kind
        {
            rule.hit();
            tokio::select! {
                () = tokio::time::sleep_until(arrived + by) => {}
                () = self.view.lifted(&rule) => {}
            }
        }
    }

    /// Bytes for a receiver that is gone are dropped. Its own direction tells the reader that it is gone, after
    /// whatever it said last: ending the connection here could lose those last words.
    async fn write(&mut self, bytes: &[u8]) {
        let way = self.way;
        let slice = self.view.strike(|kind| matches!(kind, Kind::Slice(ways, _) if ways.covers(way)));
        let throttle = self.view.strike(|kind| matches!(kind, Kind::Throttle(ways, _) if ways.covers(way)));
        let mut step = bytes.len().max(1);
        if let Some(rule) = &slice
            && let Kind::Slice(_, slice_bytes) = rule.kind
        {
            rule.hit();
            step = step.min(slice_bytes);
        }
        let mut rate = None;
        if let Some(rule) = throttle
            && let Kind::Throttle(_, bytes_per_second) = rule.kind
        {
            rule.hit();
            let per_step = (bytes_per_second / THROTTLE_STEPS_PER_SECOND).max(1);
            step = step.min(usize::try_from(per_step).unwrap_or(usize::MAX));
            rate = Some((rule, bytes_per_second));
        }
        for part in bytes.chunks(step) {
            if self.shut {
                return;
            }
            if let Some((rule, bytes_per_second)) = &rate {
                let seconds =
                    u32::try_from(part.len()).map_or(f64::MAX, f64::from) / f64::from(*bytes_per_second);
                self.free_at = self.free_at.max(Instant::now()) + Duration::from_secs_f64(seconds);
                tokio::select! {
                    () = tokio::time::sleep_until(self.free_at) => {}
                    () = self.view.lifted(rule) => {}
                }
            }
            self.shut = self.sink.write_all(part).await.is_err();
        }
    }
}
