//! One queue as a pump sees it: who waits, whether to look, and when.

use crate::counters::Why;
use crate::mode::Setting;
use crate::number::Number;
use crate::options::Times;
use crate::path::Given;
use crate::room::Share;
use crate::round::Ask;
use crate::shadow::Shadow;
use std::collections::VecDeque;
use std::task::Waker;
use std::time::{Duration, Instant};

/// The longest pause after looks that failed.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How many empty looks in a row make a queue idle, where LISTEN is impossible.
const IDLE_AFTER: u32 = 5;

/// The wake flag (rule 2): set by whatever may have brought work, cleared *before* a look is sent, never after.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    pub(crate) why: Why,
    pub(crate) at: Instant,
    /// It is a ring that was not answered in time, and that has been told.
    pub(crate) told: bool,
}

impl Flag {
    /// Does it say that somebody has written something?
    pub(crate) fn announces(&self) -> bool {
        matches!(self.why, Why::Ring | Why::Local)
    }

    /// Is it a ring of which nobody has been told that it was not answered in time?
    pub(crate) fn is_untold_ring(&self) -> bool {
        self.why == Why::Ring && !self.told
    }
}

/// One waiting consumer.
pub(crate) struct Entry<W, I> {
    pub(crate) id: u64,
    pub(crate) want: W,
    /// How much it still wants.
    pub(crate) most: u32,
    /// It goes when it has got something; a standing one stays for the rest.
    pub(crate) once: bool,
    /// The look under way is for it, too.
    pub(crate) asks: bool,
    /// There was a reason to look for it, and not room for all that it wants.
    pub(crate) crowded: bool,
    /// Since when it could have been given something.
    pub(crate) open_since: Option<Instant>,
    /// How what it took last was given to it.
    pub(crate) given: Option<Given>,
    /// Its part of a room, if it shares one.
    pub(crate) share: Option<Share>,
    /// Handed out and not yet taken.
    pub(crate) ready: VecDeque<(I, Given)>,
    pub(crate) waker: Option<Waker>,
}

pub(crate) struct Queue<W, I> {
    /// In order of registration: that is the order of the hand-out.
    pub(crate) entries: VecDeque<Entry<W, I>>,
    pub(crate) flag: Option<Flag>,
    pub(crate) timer: Option<Flag>,
    /// A look of it is under way.
    pub(crate) looking: bool,
    /// The last look said that nothing is there for anybody, and nothing has been heard since.
    pub(crate) dry: bool,
    /// Looks in a row that failed, perhaps because of it: until one succeeds it is looked at alone, so that it fails nobody else's.
    pub(crate) failed_looks: u32,
    /// After a look that failed: not before.
    pub(crate) paused_until: Option<Instant>,
    pub(crate) setting: Setting,
    /// The seats know of its demand.
    pub(crate) counted: bool,
    pub(crate) empty_looks: u32,
    /// What it would have been woken by in shadow mode.
    pub(crate) shadow: Shadow,
}

impl<W, I> Queue<W, I> {
    pub(crate) fn new(setting: Setting) -> Self {
        Self {
            entries: VecDeque::new(),
            flag: None,
            timer: None,
            looking: false,
            dry: false,
            failed_looks: 0,
            paused_until: None,
            setting,
            counted: false,
            empty_looks: 0,
            shadow: Shadow::default(),
        }
    }

    /// Is there nothing left to remember of it?
    pub(crate) fn is_over(&self) -> bool {
        self.entries.is_empty() && !self.looking
    }

    /// Must it be looked at alone?
    pub(crate) fn is_alone(&self) -> bool {
        self.failed_looks > 0
    }

    /// Does anybody want something?
    pub(crate) fn has_demand(&self) -> bool {
        self.entries.iter().any(|e| e.most > 0)
    }

    /// Sets the flag; the first to set it gives its name and time, but a heartbeat gives way to whatever announces work, and the seat that
    /// a reserve takes anew at its heartbeat to the heartbeat.
    pub(crate) fn wake(&mut self, why: Why, now: Instant) {
        let gives_way = |flag: Flag| match flag.why {
            Why::Heartbeat => true,
            Why::Seated => why == Why::Heartbeat,
            _ => false,
        };
        self.dry = false;
        if self.flag.is_none_or(gives_way) {
            self.flag = Some(Flag { why, at: now, told: false });
        }
    }

    /// Sets the flag where the mode is woken by more than the clock; otherwise only remembers that it would have been.
    pub(crate) fn stir(&mut self, why: Why, now: Instant) {
        if self.setting.mode.is_rung() {
            self.wake(why, now);
        } else {
            self.shadow.announce(now);
        }
    }

    /// Arms the timer, unless an earlier one is armed.
    pub(crate) fn look_at(&mut self, at: Instant, why: Why) {
        if self.timer.is_none_or(|timer| at < timer.at) {
            self.timer = Some(Flag { why, at, told: false });
        }
    }

    /// Would a look be answered by what somebody announced or asked for, not only make sure that nothing is there?
    pub(crate) fn is_urgent(&self, now: Instant) -> bool {
        let announced =
            |flag: Flag| !matches!(flag.why, Why::Heartbeat | Why::Alert | Why::Poll | Why::Linger);
        !self.looking
            && self.has_demand()
            && self.paused_until.is_none_or(|until| now >= until)
            && (self.flag.is_some_and(announced)
                || self.timer.is_some_and(|timer| timer.at <= now && announced(timer)))
    }

    /// Something may have kept everybody from what was there: how long they could have been given it counts from now.
    pub(crate) fn reopen(&mut self, now: Instant) {
        for entry in &mut self.entries {
            entry.open_since = entry.open_since.map(|_| now);
        }
    }

    /// Is there a reason to look now? Takes it.
    pub(crate) fn take_reason(&mut self, now: Instant) -> Option<Flag> {
        if self.looking || !self.has_demand() || self.paused_until.is_some_and(|until| now < until) {
            return None;
        }
        let due = self.timer.take_if(|timer| timer.at <= now);
        let reason = self.flag.take().or(due.map(|due| Flag { at: now, ..due }))?;
        self.timer = None; // the look will say anew when to look again
        self.dry = false; // and this as well
        self.shadow.begin(now);
        Some(reason)
    }

    /// What those who want something ask, as far as there is room for it.
    pub(crate) fn asks(&mut self, number: Number, now: Instant) -> Vec<Ask<W>>
    where
        W: Clone,
    {
        let mut asks = Vec::new();
        for entry in &mut self.entries {
            let most = entry.share.as_mut().map_or(entry.most, |share| share.begin(entry.most));
            entry.crowded = most < entry.most;
            entry.asks = most > 0;
            entry.open_since = if most > 0 { entry.open_since.or(Some(now)) } else { None };
            if entry.asks {
                asks.push(Ask { number, most, want: entry.want.clone() });
            }
        }
        asks
    }

    /// When there will be a reason to look that time alone brings.
    pub(crate) fn next_reason(&self) -> Option<Instant> {
        let timer = self.timer.map(|timer| timer.at);
        match (self.flag, self.paused_until) {
            (Some(_), paused) => paused,
            (None, paused) => timer.map(|at| paused.map_or(at, |until| until.max(at))),
        }
    }

    /// A look of it failed.
    pub(crate) fn fail(&mut self, now: Instant) {
        self.failed_looks = self.failed_looks.saturating_add(1);
        self.reopen(now);
        let pause = Duration::from_millis(25) * 2_u32.pow(self.failed_looks.min(8));
        self.paused_until = Some(now + pause.min(PAUSE_MAX));
        self.wake(Why::Retry, now);
    }

    /// How soon to look again where nobody can ring.
    pub(crate) fn adaptive_poll(&self, times: &Times) -> Duration {
        match self.empty_looks {
            0 => times.poll_busy,
            n if n < IDLE_AFTER => times.poll_quiet,
            _ => times.poll_idle,
        }
    }
}
