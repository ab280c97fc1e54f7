//! `bugle queue create`.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::span;
use bugle::Bugle;
use bugle::broker::operate::QueueOptions;
use bugle::name::QueueName;
use serde_json::json;
use std::time::Duration;

/// Make a queue of messages and tell it its options (a queue of jobs is made by the first job)
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What it is not told it does not do: without a retention no message is ever deleted. Times are whole seconds.

Examples:
  bugle queue create orders
  bugle queue create orders --lease 30s --retry-limit 5 --retention 7d
  bugle queue create orders --messages-max 10000 --replace       other options than it has")]
pub(crate) struct Args {
    /// Its name
    #[arg(value_parser = QueueName::parse)]
    queue: QueueName,
    /// How long a pop leases a partition [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    lease: Option<i32>,
    /// Retries before a message that fails is dead [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..=1_000_000))]
    retry_limit: Option<i32>,
    /// How long to wait before a retry [default: not at all]
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    retry_delay: Option<i32>,
    /// A message is invisible for so long after its push
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    delay: Option<i32>,
    /// A partition is invisible for so long after its newest message
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    window: Option<i32>,
    /// Most messages that not all groups have done: beyond it pushes are refused
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    messages_max: Option<i32>,
    /// A message is invisible from this age on
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    ttl: Option<i32>,
    /// Whoever pops by tags gets the messages of queues with a higher one before
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Messages may go at this age, done or not
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    retention: Option<i32>,
    /// Messages that all groups have done may go at this age
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    completed_retention: Option<i32>,
    /// A message that has waited for so long is invisible
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    wait_max: Option<i32>,
    /// A tag by which queues are popped from together
    #[arg(long, value_name = "TAG")]
    tag_namespace: Option<String>,
    /// A second one
    #[arg(long, value_name = "TAG")]
    tag_task: Option<String>,
    /// The queue may be there: it has these options from now on, and no others
    #[arg(long)]
    replace: bool,
}

fn seconds(text: &str) -> Result<i32, String> {
    let length = span::parse(text)?;
    if length.subsec_nanos() > 0 {
        return Err(format!("{text:?} is not a whole number of seconds"));
    }
    i32::try_from(length.as_secs()).map_err(|_| format!("{text:?} is too long; at most 68 years"))
}

fn milliseconds(text: &str) -> Result<i32, String> {
    let length: Duration = span::parse(text)?;
    i32::try_from(length.as_millis()).map_err(|_| format!("{text:?} is too long; at most 24 days"))
}

impl Args {
    fn options(&self) -> QueueOptions {
        QueueOptions {
            tag_namespace: self.tag_namespace.clone(),
            tag_task: self.tag_task.clone(),
            lease_seconds: self.lease,
            retry_limit: self.retry_limit,
            retry_delay_ms: self.retry_delay,
            delay_seconds: self.delay,
            window_seconds: self.window,
            messages_max: self.messages_max,
            ttl_seconds: self.ttl,
            priority: self.priority,
            retention_enabled: self.retention.map(|_| true),
            retention_seconds: self.retention,
            completed_retention_seconds: self.completed_retention,
            wait_seconds_max: self.wait_max,
            ..QueueOptions::default()
        }
    }
}

pub(super) async fn run(args: &Args, bugle: &Bugle, output: Output) -> Result<Exit, Failure> {
    let (broker, name) = (bugle.broker(), args.queue.as_str());
    let was_there = broker.has_queue(name).await?;
    if was_there && !args.replace {
        return Err(Failure::user(format!(
            "queue {name:?} is there already; add --replace to give it these options instead of those it has"
        )));
    }
    broker.configure(name, &args.options()).await?;
    if output.is_json() {
        output.json(&json!({ "queue": name, "created": !was_there, "options": args.options() }))?;
    } else {
        output.line(&format!("{name}: {}", if was_there { "told its options" } else { "created" }))?;
    }
    Ok(Exit::Ok)
}
