//! docs/rollout.md, done step by step: every command, every figure, every way back.

use super::serve::{answer, send};
use super::{Running, Site, eventually};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

const PAGE: &str = include_str!("../../../../docs/rollout.md");
const SPACES: [&str; 2] = ["shop", "billing"];
/// So many runs are enough for every figure that is to grow, or it never will.
const RUNS_MAX: usize = 60;

/// One step of the page.
struct Step {
    title: &'static str,
    commands: Vec<&'static str>,
    figures: Vec<Figure>,
    /// None: nothing was changed.
    back: Option<Vec<&'static str>>,
}

struct Figure {
    space: &'static str,
    name: &'static str,
    grows: bool,
}

fn steps() -> Vec<Step> {
    let numbered = |part: &&str| part.starts_with(|first: char| first.is_ascii_digit());
    PAGE.split("\n## ").filter(numbered).map(Step::read).collect()
}

impl Step {
    fn read(text: &'static str) -> Self {
        let block = |text: &'static str| {
            let (_, rest) = text.split_once("```sh\n")?;
            Some(rest.split_once("\n```").unwrap().0.lines().collect::<Vec<_>>())
        };
        let (forth, back) = text.split_once("\nWay back").unwrap_or_else(|| panic!("no way back: {text}"));
        let figures: Vec<Figure> = forth.lines().filter_map(Figure::read).collect();
        let title = text.lines().next().unwrap();
        assert!(!figures.is_empty(), "{title} has no figure");
        let commands = block(forth).unwrap_or_else(|| panic!("{title} has no command"));
        Self { title, commands, figures, back: block(back) }
    }
}

impl Figure {
    fn read(line: &'static str) -> Option<Self> {
        let cells: Vec<&'static str> = line.split('|').map(str::trim).collect();
        let [_, space, name, verdict, _] = cells[..] else { return None };
        let name = name.strip_prefix('`')?.strip_suffix('`')?;
        assert!(SPACES.contains(&space) && ["grows", "stays"].contains(&verdict), "{line}");
        Some(Self { space, name, grows: verdict == "grows" })
    }
}

/// A server of one namespace.
struct Served {
    name: &'static str,
    address: String,
    _server: Running,
}

impl Served {
    fn new(site: &Site, name: &'static str) -> Self {
        assert_eq!(site.run(&["namespace", "create", name]).code, 0);
        let yaml = b"name: d\nsteps: [ { name: a } ]";
        assert_eq!(site.run_with_input(&["flow", "define", "-", "--namespace", name], yaml).code, 0);
        let args = ["serve", "--listen", "127.0.0.1:0", "--json", "--namespace", name];
        let mut command = site.command(&args);
        let mut server = Running(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let address = told["listening"].as_str().unwrap().trim_start_matches("http://").to_owned();
        Self { name, address, _server: server }
    }

    fn metrics(&self) -> String {
        answer(send(&self.address, "GET /metrics", "")).1
    }

    fn figure(&self, name: &str) -> u64 {
        let text = self.metrics();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        // A histogram without a time is left out.
        value.map_or(0, |value| value.parse().unwrap_or_else(|_| panic!("{name} is {value}")))
    }

    /// A run of one step, which a worker waits for over HTTP.
    fn run(&self, site: &Site) {
        let claim = "POST /api/v1/flow/queues/steps/claim?wait=true&timeoutMillis=60000";
        let waiting = send(&self.address, claim, "{}");
        eventually("the worker waits", || self.metrics().contains("\nbugle_intentions 2\n")); // and the engine
        site.json(&["flow", "start", "d", "--namespace", self.name]);
        let (status, body) = answer(waiting);
        assert_eq!(status, 200, "{}: {body}", self.name);
        let claimed: Value = serde_json::from_str(&body).unwrap();
        let ended = json!({ "receipt": claimed["steps"][0]["receipt"] }).to_string();
        assert_eq!(answer(send(&self.address, "POST /api/v1/flow/steps/complete", &ended)).0, 200);
    }
}

/// Runs commands of the page as they stand there, and waits until both servers have heard of what they changed.
fn carry_out(site: &Site, commands: &[&str], servers: &[Served]) {
    let heard = || servers.iter().map(|server| server.figure("bugle_wake_controls_total"));
    let before: Vec<u64> = heard().collect();
    let mut changes = 0;
    for command in commands {
        let words: Vec<&str> = command.split_whitespace().collect();
        let ["bugle", args @ ..] = &words[..] else { panic!("no command of bugle: {command}") };
        let ran = site.run(args);
        assert_eq!(ran.code, 0, "{command}: {}", ran.stderr);
        changes += u64::from(args.starts_with(&["flow", "mode"]));
    }
    eventually("the nodes are told", || heard().zip(&before).all(|(now, then)| now >= then + changes));
}

/// Starts runs until every figure that shall grow has grown; those that shall stay must then stay.
fn check(site: &Site, step: &Step, servers: &[Served]) {
    let read = || -> Vec<u64> {
        let server = |space: &str| servers.iter().find(|server| server.name == space).unwrap();
        step.figures.iter().map(|figure| server(figure.space).figure(figure.name)).collect()
    };
    let grown = |from: &[u64]| {
        read().iter().zip(from).zip(&step.figures).all(|((now, then), figure)| !figure.grows || now > then)
    };
    let work = |from: &[u64]| {
        for _ in 0..RUNS_MAX {
            for server in servers {
                server.run(site);
            }
            if grown(from) {
                return;
            }
        }
        let names: Vec<_> = step.figures.iter().map(|figure| figure.name).collect();
        panic!("{}: {names:?} were {from:?} and are {:?}", step.title, read());
    };
    work(&read()); // what was under way in the mode before is over then
    let settled = read();
    work(&settled);
    for ((now, then), figure) in read().iter().zip(&settled).zip(&step.figures) {
        let (title, Figure { space, name, .. }) = (step.title, figure);
        assert!(figure.grows || now == then, "{title}: {name} of {space} was {then} and is {now}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rollout_is_done_as_it_is_written() {
    let site = Site::new().await;
    let servers = SPACES.map(|name| Served::new(&site, name));
    let steps = steps();
    assert_eq!(steps.len(), 7, "the page has seven steps");
    let settings = || site.json(&["flow", "settings"]);
    for step in &steps {
        let before = settings();
        carry_out(&site, &step.commands, &servers);
        check(&site, step, &servers);
        let Some(back) = &step.back else {
            assert_eq!(settings(), before, "{}", step.title);
            continue;
        };
        let after = settings();
        carry_out(&site, back, &servers);
        assert_eq!(settings(), before, "{}: the way back leads where it came from", step.title);
        for server in &servers {
            server.run(&site); // it is served there
        }
        carry_out(&site, &step.commands, &servers);
        assert_eq!(settings(), after);
    }
    assert!(settings().as_array().unwrap().iter().all(|row| row["effective"]["mode"] == "hybrid"));
}
