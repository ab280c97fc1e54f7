//! What the demo says at its end.

use super::producer::Producers;
use crate::view::{Percentiles, Snapshot};
use serde::Serialize;
use std::time::Duration;

/// What happened while the demo ran.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    seconds: f64,
    orders_committed: u64,
    orders_rolled_back: u64,
    enqueued: i64,
    done: i64,
    retried: i64,
    dead: i64,
    taken_back: i64,
    still_open: i64,
    workers_lost: u32,
    pick_up: Option<Percentiles>,
}

impl Summary {
    pub(super) fn new(
        length: Duration,
        before: &Snapshot,
        after: &Snapshot,
        producers: &Producers,
        pick_up: Option<Percentiles>,
        workers_lost: u32,
    ) -> Self {
        let (b, a) = (&before.counts, &after.counts);
        Self {
            seconds: length.as_secs_f64(),
            orders_committed: producers.committed(),
            orders_rolled_back: producers.rolled_back(),
            enqueued: a.enqueued - b.enqueued,
            done: a.done - b.done,
            retried: a.retried - b.retried,
            dead: a.dead - b.dead,
            taken_back: a.taken_back - b.taken_back,
            still_open: a.scheduled + a.ready + a.leased,
            workers_lost,
            pick_up,
        }
    }

    pub(super) fn text(&self) -> String {
        let pick_up = self.pick_up.map_or_else(String::new, |p| {
            let ms = |length: Duration| length.as_secs_f64() * 1_000.0;
            format!(
                "picked up after {:.1} ms (half of them), {:.1} ms (95 in 100), {:.1} ms (99 in 100)\n",
                ms(p.p50),
                ms(p.p95),
                ms(p.p99)
            )
        });
        format!(
            "\nin {:.1} s: {} orders committed, each with its job; {} rolled back, with theirs\n\
             jobs: {} enqueued, {} done, {} attempts retried, {} dead, {} taken back from {} lost workers, {} still open\n{pick_up}",
            self.seconds,
            self.orders_committed,
            self.orders_rolled_back,
            self.enqueued,
            self.done,
            self.retried,
            self.dead,
            self.taken_back,
            self.workers_lost,
            self.still_open,
        )
    }
}
