//! How a process tells the recorder what it does and sees.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::clock::monotonic_ns;
use super::{Event, Fault, FaultKind, Op, Phase, Recorder};

/// Calls are numbered per process, so that several clients in one process never share a number.
static CALLS: AtomicU64 = AtomicU64::new(1);

/// When something happened, by the clock of histories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// This moment.
    #[must_use]
    pub fn now() -> Self {
        Self(monotonic_ns())
    }
}

/// Records events, in the recorder's own process or from a child; cheap to clone.
///
/// Each event is one blocking write of one line to the socket, with no buffer of ours in between: once the call
/// returns, the line is in the kernel and survives a kill of this process.
#[derive(Clone, Debug)]
pub struct RecorderClient {
    sink: Sink,
}

#[derive(Clone, Debug)]
enum Sink {
    Memory(Recorder),
    Socket(Arc<Mutex<UnixStream>>),
}

impl RecorderClient {
    /// Connects to the endpoint that [`Recorder::listen`] opened.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        Ok(Self { sink: Sink::Socket(Arc::new(Mutex::new(stream))) })
    }

    pub(super) fn in_process(recorder: Recorder) -> Self {
        Self { sink: Sink::Memory(recorder) }
    }

    /// Records that `event` is about to be sent. Call it before sending.
    pub fn invoke(&self, event: Event) -> io::Result<Call> {
        self.invoke_at(Moment::now(), event)
    }

    /// The same for something that began before, as is known only now.
    pub fn invoke_at(&self, began: Moment, mut event: Event) -> io::Result<Call> {
        event.t_ns = began.0;
        event.phase = Phase::Invoke;
        event.call = CALLS.fetch_add(1, Ordering::Relaxed);
        let (queue, group, fault) = (event.queue.clone(), event.group.clone(), event.fault.clone());
        let answer = Event { call: event.call, queue, group, fault, ..Event::new(&event.who, event.op) };
        self.record(event)?;
        Ok(Call { client: self.clone(), answer })
    }

    /// Records that a fault begins. Call it before doing the damage; end the window after the repair.
    pub fn fault(&self, kind: FaultKind, victim: Option<&str>) -> io::Result<FaultWindow> {
        let mut event = Event::new("nemesis", Op::Fault);
        event.fault = Some(Fault { kind, victim: victim.map(str::to_owned) });
        Ok(FaultWindow { call: self.invoke(event)? })
    }

    /// Records that nothing is broken any more, now and until the end of the run.
    pub fn heal(&self) -> io::Result<()> {
        self.fault(FaultKind::Heal, None)?.end()
    }

    fn record(&self, event: Event) -> io::Result<()> {
        match &self.sink {
            Sink::Memory(recorder) => {
                recorder.keep(event);
                Ok(())
            }
            Sink::Socket(stream) => {
                let mut line = serde_json::to_vec(&event)?;
                line.push(b'\n');
                stream.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)
            }
        }
    }
}

/// A call that was invoked and not yet answered. Dropping it unanswered means: it may have happened.
#[derive(Debug)]
pub struct Call {
    client: RecorderClient,
    answer: Event,
}

impl Call {
    /// It happened; `fill` adds the items and the database's time.
    pub fn ok(&self, fill: impl FnOnce(Event) -> Event) -> io::Result<()> {
        self.answer(Phase::Ok, fill)
    }

    /// It did not happen, for the items that `fill` adds or, with none, for all of them.
    pub fn refused(&self, fill: impl FnOnce(Event) -> Event) -> io::Result<()> {
        self.answer(Phase::Refused, fill)
    }

    /// It may have happened: an error, a timeout, a lost connection.
    pub fn unknown(&self, cause: &str) -> io::Result<()> {
        self.answer(Phase::Unknown, |answer| answer.cause(cause))
    }

    fn answer(&self, phase: Phase, fill: impl FnOnce(Event) -> Event) -> io::Result<()> {
        let answer = Event { phase, t_ns: monotonic_ns(), ..self.answer.clone() };
        self.client.record(fill(answer))
    }
}

/// A fault that has begun. Dropped without an end, it lasts until the run is healed.
#[derive(Debug)]
pub struct FaultWindow {
    call: Call,
}

impl FaultWindow {
    /// Records the repair.
    pub fn end(self) -> io::Result<()> {
        self.call.ok(|event| event)
    }
}
