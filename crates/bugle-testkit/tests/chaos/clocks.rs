//! Row 21: nodes whose wall clock is wrong, or jumps.
use crate::place::{NODE, Nodes, again_and_again, demand, shared_run};
use bugle_testkit::chaos::{Clock, Role, seconds};
use bugle_testkit::history::FaultKind;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const HOUR_MS: i64 = 3_600_000;
/// How far two clocks may seem apart that are not, because a process took its time to answer.
const ANSWER_MS_MAX: i64 = 60_000;

#[tokio::test]
async fn row_21_clocks_that_are_wrong_or_jump_change_nothing() {
    let (db, mut run) = shared_run().await;
    let mut start = |role, offset| run.node_with_clock(role, db.url(), offset).unwrap();
    let nodes = Nodes {
        producers: ["+1h", "-1h"].map(|offset| start(Role::Producer, offset)).into(),
        workers: ["+1h", "-1h", "+0"].map(|offset| start(Role::Worker, offset)).into(),
    };
    let nemesis = run.nemesis();
    let mut offsets = ["+1h", "-1h", "+400d", "+0"].iter().cycle();
    again_and_again(seconds(4), Duration::from_millis(100), async || {
        let jumper = &nodes.workers[2];
        let window = nemesis.fault(FaultKind::ClockJumped, Some(&jumper.who)).unwrap();
        jumper.clock().unwrap().jump(offsets.next().unwrap()).unwrap();
        window.end().unwrap();
    })
    .await;
    let report = run.finish(nodes.producers, nodes.workers).await.unwrap();
    demand(&report, &FaultKind::ClockJumped, 5, 0);
}

/// A node that does nothing but tell the time.
struct Teller {
    child: Child,
    clock: Clock,
}

impl Teller {
    /// How far its wall clock is off, and how long it thinks that it runs, in milliseconds.
    fn ask(&mut self) -> (i64, i64) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        BufReader::new(self.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let (wall, runs) = line.trim().split_once(' ').unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let off = wall.parse::<i64>().unwrap() - i64::try_from(now).unwrap();
        (off, runs.parse().unwrap())
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        Clock::clean_up_after(self.child.id());
    }
}

#[test]
fn a_nodes_wallclock_is_as_wrong_as_it_was_told_and_nothing_else_is() {
    let clock = Clock::new("+1h").unwrap();
    let mut command = Command::new(NODE);
    command.arg("tell-the-time").stdin(Stdio::piped()).stdout(Stdio::piped());
    clock.give_to(&mut command);
    let mut teller = Teller { child: command.spawn().unwrap(), clock };
    for (offset, wanted) in [("+1h", HOUR_MS), ("-1h", -HOUR_MS), ("+0", 0)] {
        teller.clock.jump(offset).unwrap();
        let (off, runs) = teller.ask();
        assert!((off - wanted).abs() < ANSWER_MS_MAX, "{offset}: off by {off} ms");
        assert!(runs < ANSWER_MS_MAX, "{offset}: sleeping would go by a clock that says {runs} ms");
    }
}
