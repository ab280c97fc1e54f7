//! The listener's task: hears who rings, takes and leaves seats, and keeps the heartbeat. The only task that uses the listener's session.

mod session;

use crate::alert::Event;
use crate::counters::Why;
use crate::node::Shared;
use crate::number::{Bucket, Call};
use crate::seat::{Errand, Seated, Session as Use};
use session::{Heard, Session, read_control, read_modes, ring_owed};
use std::time::{Duration, Instant};

/// The pause before a connection is tried again that was lost, and one that could not be had. (While the database is away it is the breaker that asks.)
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// More notifications than this at once are not read one by one: everybody looks instead.
const INBOX_MAX: usize = 10_000;
/// Above this part of PostgreSQL's queue of notifications the node does without rings, and below the second it returns to them.
const NOTIFY_USAGE: (f64, f64) = (0.5, 0.25);
/// How often a node without LISTEN asks whether control has changed.
const CONTROL_EVERY: Duration = Duration::from_millis(500);

/// Why a session's service ended.
enum Ended {
    Stopped,
    Lost(String),
}

/// Connects, serves, and connects again until the node stops.
pub(crate) async fn run(shared: &Shared) {
    // A task that died left its session behind, and sleepers that nobody can ring for.
    let died = shared.seats.session() == Use::Listening;
    shared.seats.lost(Use::Away);
    shared.breaker.witness(false);
    if died {
        shared.each(|pump, now| pump.fault(Event::ListenerLost, now));
    }
    let mut beat_at = Instant::now() + shared.options.times.heartbeat;
    while !shared.stop.is_cancelled() {
        if Instant::now() >= beat_at {
            // A node whose listener cannot connect has duties all the same.
            beat_at = Instant::now() + shared.options.times.heartbeat;
            shared.beat();
        }
        if shared.breaker.away_for().is_some() {
            wait_for_the_database(shared, beat_at).await;
            continue;
        }
        let opening = Box::pin(open(shared)); // rare, and large
        let Some(opened) = shared.stop.run_until_cancelled(opening).await else { break };
        let pause = match opened {
            Ok(None) => return poll_control(shared).await,
            Ok(Some(session)) => {
                shared.counters.connects.one();
                shared.breaker.witness(true);
                let ended = Listener { shared, session, heartbeat_at: first_heartbeat(shared), alert: false }
                    .serve()
                    .await;
                shared.breaker.witness(false);
                let Ended::Lost(why) = ended else { return };
                tracing::warn!(why, "listener lost, connecting again");
                shared.breaker.trip();
                beat_at = Instant::now() + shared.options.times.heartbeat;
                shared.counters.disconnects.one();
                RETRY.0
            }
            Err(error) => {
                tracing::warn!(%error, "listener cannot connect, trying again");
                RETRY.1
            }
        };
        shared.seats.lost(Use::Away);
        shared.each(|pump, now| pump.fault(Event::ListenerLost, now));
        // Jitter: the nodes of a fleet lose their connections together.
        let wait = pause.mul_f64(rand::random_range(1.0..1.5));
        shared.stop.run_until_cancelled(tokio::time::sleep(wait)).await;
    }
    pay(shared).await;
}

/// Until it is there, or the heart must beat.
async fn wait_for_the_database(shared: &Shared, beat_at: Instant) {
    tokio::select! {
        () = shared.breaker.closed() => {}
        () = tokio::time::sleep_until(beat_at.into()) => {}
        () = shared.stop.cancelled() => {}
    }
}

/// Rule 12 for a node that is stopped without a session: whoever relied on a bell that it lost (rule 11) is told all the same, if the
/// database can be reached in time. It is tried once; what fails costs the peers a heartbeat.
async fn pay(shared: &Shared) {
    let owed = shared.seats.owed();
    if owed.is_empty() {
        return;
    }
    let place = &shared.place;
    let within = shared.options.times.answer_within;
    match ring_owed(&place.listener, &place.statements, &place.node, &owed, within).await {
        Ok(rung) => shared.counters.handovers_sent.add(u64::from(rung.unsigned_abs())),
        Err(error) => {
            tracing::warn!(%error, "stopped without a listener: nodes that relied on its bells wait for their heartbeat");
        }
    }
}

/// A session that listens; `None` where there can be none.
async fn open(shared: &Shared) -> Result<Option<Session>, sqlx::Error> {
    if !shared.options.listen {
        tracing::warn!("LISTEN is switched off: polling");
        return Ok(None);
    }
    let within = shared.options.times.answer_within;
    let place = &shared.place;
    let session = Session::open(&place.listener, &place.statements, &place.node, within).await?;
    if session.is_none() {
        tracing::warn!(
            "LISTEN is impossible behind a pooler in transaction mode: polling instead. \
             Give the listener an address of its own that leads straight to the server (BUGLE_LISTENER_URL)"
        );
    }
    Ok(session)
}

/// Nodes that started together should not beat together.
fn first_heartbeat(shared: &Shared) -> Instant {
    Instant::now() + shared.options.times.heartbeat.mul_f64(rand::random_range(0.5..1.0))
}

/// The life of a node without LISTEN: its pumps poll; here only control is asked for.
async fn poll_control(shared: &Shared) {
    shared.seats.lost(Use::Useless);
    shared.each(|pump, now| pump.wake_all(Why::Connected, now));
    let mut beat = Instant::now();
    while !shared.stop.is_cancelled() {
        if let Err(error) = poll_once(shared).await {
            tracing::warn!(%error, "control could not be read");
            shared.breaker.trip();
        }
        if beat.elapsed() >= shared.options.times.heartbeat {
            beat = Instant::now();
            shared.forget_control(); // a ring without a new version is heard by those who listen alone
            shared.beat();
        }
        shared.stop.run_until_cancelled(tokio::time::sleep(CONTROL_EVERY)).await;
    }
}

async fn poll_once(shared: &Shared) -> Result<(), sqlx::Error> {
    let (statements, pool) = (&shared.place.statements, &shared.place.pool);
    let mut connection = shared.breaker.acquire(pool).await?;
    let version = read_control(statements, &mut *connection).await?;
    if shared.control() != Some(version) {
        shared.set_modes(read_modes(statements, &mut *connection).await?);
        shared.set_control(version);
        shared.tell_control();
    }
    Ok(())
}

struct Listener<'a> {
    shared: &'a Shared,
    session: Session,
    heartbeat_at: Instant,
    /// What the session's name says.
    alert: bool,
}

impl Listener<'_> {
    async fn serve(mut self) -> Ended {
        match self.try_serve().await {
            Ok(()) => Ended::Stopped,
            Err(error) => Ended::Lost(error.to_string()),
        }
    }

    async fn try_serve(&mut self) -> Result<(), sqlx::Error> {
        self.begin().await?;
        loop {
            self.read_meanwhile();
            if self.shared.control().is_none() {
                self.read_control().await?;
                continue;
            }
            let now = Instant::now();
            for bucket in self.shared.seats.surfaced(now) {
                self.wake(bucket, Why::Shallow);
            }
            if now >= self.heartbeat_at {
                self.heartbeat().await?;
                continue;
            }
            if let Some(errand) = self.shared.seats.next_errand(now) {
                self.run_errand(errand).await?;
                continue;
            }
            if self.shared.stop.is_cancelled() {
                return self.end().await;
            }
            self.show_alert().await?;
            let until =
                self.shared.seats.next_timer().map_or(self.heartbeat_at, |at| at.min(self.heartbeat_at));
            tokio::select! {
                biased;
                heard = self.session.hear() => match heard {
                    Heard::Payload(payload) => {
                        self.hear(&payload);
                        tokio::task::yield_now().await; // whoever was woken looks first
                    }
                    Heard::Lost => return Err(std::io::Error::from(std::io::ErrorKind::ConnectionAborted).into()),
                },
                () = self.shared.seats.changed.raised() => {}
                () = tokio::time::sleep_until(until.into()) => {}
                () = self.shared.stop.cancelled() => return self.end().await,
            }
        }
    }

    /// LISTEN is committed: whoever relied on a lost bell is told (rule 11), and everybody looks.
    async fn begin(&mut self) -> Result<(), sqlx::Error> {
        let owed = self.shared.seats.listening();
        if !owed.is_empty() {
            match self.session.ring_if_marked(&owed).await {
                Ok(rung) => self.count_handovers(rung),
                Err(error) => {
                    self.shared.seats.owe(owed);
                    return Err(error);
                }
            }
        }
        self.read_control().await?;
        self.shared.each(|pump, now| pump.wake_all(Why::Connected, now));
        Ok(())
    }

    /// Rule 12.
    async fn end(&mut self) -> Result<(), sqlx::Error> {
        self.shared.seats.leave_all();
        while let Some(errand) = self.shared.seats.next_errand(Instant::now()) {
            self.run_errand(errand).await?;
        }
        Ok(())
    }

    async fn run_errand(&mut self, errand: Errand) -> Result<(), sqlx::Error> {
        match errand {
            Errand::Leave { bells, marks } => {
                let rung = self.session.leave(&bells, &marks).await?;
                self.shared.seats.left(&bells, &marks);
                self.shared.counters.seats_left.add(length(&bells) + length(&marks));
                self.count_handovers(rung);
            }
            Errand::Sit { buckets, marked } => {
                let seated = self.session.sit(&buckets, &marked).await?;
                let answers: Vec<_> = buckets.into_iter().zip(seated).collect();
                for (_, seated) in &answers {
                    match seated {
                        Seated::Bell => self.shared.counters.bells_taken.one(),
                        Seated::Reserve => self.shared.counters.marks_taken.one(),
                        Seated::Shallow => self.shared.counters.shallow_sleeps.one(),
                    }
                }
                // The answer before the notifications that came with it: see Seats::handover.
                for bucket in self.shared.seats.seated(&answers, Instant::now()) {
                    self.wake(bucket, Why::Seated);
                }
            }
        }
        Ok(())
    }

    /// Rule 10. First the seats, then one look for both reasons.
    async fn heartbeat(&mut self) -> Result<(), sqlx::Error> {
        self.heartbeat_at = Instant::now() + self.shared.options.times.heartbeat;
        let pulse = self.session.heartbeat().await?;
        if self.shared.control() != Some(pulse.control) {
            self.read_control().await?;
        }
        self.shared.notify_usage.store(pulse.notify_usage.to_bits(), std::sync::atomic::Ordering::Relaxed);
        self.mind_usage(pulse.notify_usage);
        self.shared.seats.heartbeat();
        if let Some(errand) = self.shared.seats.next_errand(Instant::now()) {
            self.run_errand(errand).await?;
        }
        self.shared.beat();
        Ok(())
    }

    /// A session that listens and does not read fills PostgreSQL's queue of notifications, and a full one refuses every commit that rings.
    fn mind_usage(&self, usage: f64) {
        let seats = &self.shared.seats;
        if usage > NOTIFY_USAGE.0 && seats.session() == Use::Listening {
            tracing::warn!(
                usage,
                "PostgreSQL's queue of notifications is filling up: polling until it is empty. Look for a session that listens inside a long transaction"
            );
            seats.set_useless(true);
        } else if usage < NOTIFY_USAGE.1 && seats.session() == Use::Useless {
            tracing::info!(usage, "PostgreSQL's queue of notifications is empty again: listening");
            seats.set_useless(false);
        } else {
            return;
        }
        self.shared.each(|pump, now| pump.wake_all(Why::Connected, now));
    }

    async fn read_control(&mut self) -> Result<(), sqlx::Error> {
        // The version before the rows: a change in between is read twice, not missed.
        let version = self.session.heartbeat().await?.control;
        let modes = self.session.modes().await?;
        self.shared.set_modes(modes);
        self.shared.set_control(version);
        self.shared.tell_control();
        Ok(())
    }

    fn read_meanwhile(&mut self) {
        let mut payloads: Vec<String> = self.session.heard_meanwhile().take(INBOX_MAX + 1).collect();
        if payloads.len() > INBOX_MAX {
            payloads.clear();
            while self.session.heard_meanwhile().next().is_some() {}
            self.shared.each(|pump, now| pump.fault(Event::InboxFull, now));
            self.shared.seats.heartbeat(); // a handover may have been among them
            self.shared.forget_control();
        }
        for payload in payloads {
            self.hear(&payload);
        }
    }

    fn hear(&self, payload: &str) {
        let (shared, now) = (self.shared, Instant::now());
        match Call::parse(payload) {
            Some(Call::Ring(bucket, number)) => {
                shared.counters.rings.one();
                let found = shared.ring(number, now);
                if shared.seats.rung(bucket, now, found) {
                    self.wake(bucket, Why::Linger);
                }
            }
            Some(Call::Handover(bucket)) => {
                shared.counters.handovers_heard.one();
                if shared.seats.handover(bucket) {
                    self.wake(bucket, Why::Handover);
                }
            }
            Some(Call::Control) => {
                shared.counters.controls.one();
                shared.each(|pump, now| pump.reopen(now)); // a queue may have been paused
                shared.forget_control();
            }
            None => {
                shared.counters.garbage.one();
                tracing::debug!("a notification that is not ours was ignored");
            }
        }
    }

    async fn show_alert(&mut self) -> Result<(), sqlx::Error> {
        let alert = self.shared.is_on_alert();
        if alert != self.alert {
            self.session.show(&self.shared.place.node, alert).await?;
            self.alert = alert;
        }
        Ok(())
    }

    fn wake(&self, bucket: Bucket, why: Why) {
        self.shared.each(|pump, now| pump.wake_bucket(bucket, why, now));
    }

    fn count_handovers(&self, rung: i32) {
        self.shared.counters.handovers_sent.add(u64::from(rung.unsigned_abs()));
    }
}

fn length(buckets: &[Bucket]) -> u64 {
    u64::try_from(buckets.len()).unwrap_or(0)
}
